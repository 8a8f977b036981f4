/* delay.pml: the lock delay. line.pml has the line: here a place is at its turn while it stands and none does ahead.
 *
 * The znode `held` stands beside the places and does not go with a session. At its turn a place creates it, with its
 * own name as the data, and is granted. A release deletes both in one transaction. If `held` stands already, the place
 * reads it. Its own name: the reply to its create was lost, and it is granted. Another's name: that place went without
 * a release, and this one sets the data to GONE: the zxid of that, or its time, is the mark. GONE: it waits until d
 * after the mark, writes its own name and is granted. Each write checks the place, and the version that was read.
 * A waiter that gives up deletes its place alone. If it does not know whether `held` is its own, it finds out before,
 * by going on as above, without waiting. A holder that has lost its lease deletes its place alone.
 *
 * What holds: if the last holder went without a release, nobody is granted before d after a mark that is younger than
 * that. Each such departure is marked once, so deadlines shorter than d cannot put a grant off for ever. Nobody waits
 * for d, and `held` does not stand in the end, unless a place with that name went without a release. Everybody is
 * granted in the end, or gives up.
 *
 * Switches (all as -D):
 *   NC clients, ROUNDS acquisitions each; the first NP know of no delay. Each has a d of its own.
 *   CANCEL    a waiter may give up, at any point
 *   EXP EVI LOSE DISC  budgets: expiries; deletions of places by an operator; leases that end because their clock runs
 *             out; lost connections, with what was under way carried out or not
 *   STALE     a read on a new connection may show the state of the last reply on the one before
 *   OPDEL     budget: an operator deletes `held`: it is forgotten who went
 *   ROLL      budget: the line, in which no place stands, is deleted and made anew, with `held` as GONE if it stood
 *   Clauses left out (each must break):
 *             NOCHECK    the writes do not check the place
 *             NOVERSION  the writes do not check the version (with STALE)
 *             NONAME     its own name is taken for another's
 *             NOTAKE     after d, the place is granted without writing its name
 *             NOMARK     it is not written who went, and each waits for d from when it sees that
 *             NOLOOK     a waiter that gives up does not find out whether `held` is its own
 *             TAKEALONG  a waiter that gives up deletes `held`, too
 *             LOSTCLEAN  a lease that was lost is left like one that is released
 *             NOAGAIN    a release whose `held` is gone is not sent again without it (with OPDEL)
 *             ROLLDROP   the line is made anew without `held`
 */
#ifndef NC
#define NC 2
#endif
#ifndef NP
#define NP 0
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef EXP
#define EXP 0
#endif
#ifndef EVI
#define EVI 0
#endif
#ifndef LOSE
#define LOSE 0
#endif
#ifndef DISC
#define DISC 0
#endif
#ifndef OPDEL
#define OPDEL 0
#endif
#ifndef ROLL
#define ROLL 0
#endif
#define MAXP (NC*ROUNDS)
#define NONE 31
#define BIT(p) (1<<(p))
#define STANDS(p) ((stand>>(p))&1)
#define FIRST(p) (STANDS(p) && (stand & (BIT(p)-1)) == 0)
#define GONE 30

/* requests */
#define CREATE 1
#define MARK 2
#define TAKE 3
#define GET 4
#define REL 5    /* delete the place and `held` */
#define GO 6     /* delete the place */
/* replies */
#define OK 1
#define NOPLACE 2
#define EXISTS 3
#define NOHELD 4
#define BADVER 5
#define DATA 6
#define DSC 7    /* connection was lost, a new one is up */

short stand;          /* the places, as bits */
byte owner[MAXP];
byte diedat[MAXP];    /* ghost: the mark that was next when it went */
byte nxt;
bit held; byte hname, hver, hmark;
byte nmark = 1;       /* the next mark */
byte passed[NC];      /* the last mark of which this client's d has passed */
bit expired[NC];
byte lease[NC];       /* ghost: the place by which it holds */
byte need;            /* ghost: the last holder went before this mark; 0: it released */
bit owed;             /* ghost: the place named in `held` went without a release */
bit fresh;            /* ghost: and that has not been marked */
byte fin, losable = LOSE;
chan rq[NC] = [3] of { byte, byte, byte };
chan rp[NC] = [3] of { byte, byte, byte, byte };
#ifdef STALE
bit lag[NC], sheld[NC]; byte sname[NC], sver[NC], smark[NC];
#define SNAP(c) sheld[c] = held; sname[c] = hname; sver[c] = hver; smark[c] = hmark
#else
#define SNAP(c) skip
#endif

inline goes(p) {      /* without a release */
  stand = stand & ~BIT(p); diedat[p] = nmark;
  if
  :: lease[owner[p]] == p && owner[p] >= NP -> lease[owner[p]] = NONE; if :: held -> need = nmark :: else fi
  :: else
  fi;
  if :: held && hname == p -> owed = 1; fresh = 1 :: else fi
}
inline clear() { held = 0; hname = 0; hver = 0; hmark = 0; owed = 0; fresh = 0 }
inline write(p) { hname = p; hver++ }

#ifdef NOCHECK
#define REFUSED(p) 0
#else
#define REFUSED(p) !STANDS(p)
#endif
#ifdef NOVERSION
#define OTHERVER(v) 0
#else
#define OTHERVER(v) (v) != hver
#endif

inline serve(c) {
  rq[c]?t_,p_,v_;
#ifdef STALE
  if :: t_ != GET -> lag[c] = 0 :: else fi;
#endif
  if
  :: t_ == GET ->
     if
     :: held -> assert(hname != GONE || owed); rp[c]!DATA,hname,hver,hmark
     :: !held -> rp[c]!NOHELD,0,0,0
#ifdef STALE
     :: lag[c] && sheld[c] -> rp[c]!DATA,sname[c],sver[c],smark[c]
     :: lag[c] && !sheld[c] -> rp[c]!NOHELD,0,0,0
#endif
     fi
  :: t_ == GO && STANDS(p_) -> stand = stand & ~BIT(p_); diedat[p_] = nmark; rp[c]!OK,0,0,0
  :: t_ == REL && STANDS(p_) && held -> assert(hname == p_); stand = stand & ~BIT(p_); clear(); rp[c]!OK,0,0,0
  :: t_ == REL && STANDS(p_) && !held -> rp[c]!NOHELD,0,0,0
  :: (t_ == GO || t_ == REL) && !STANDS(p_) -> rp[c]!NOPLACE,0,0,0
  :: t_ <= TAKE && REFUSED(p_) -> rp[c]!NOPLACE,0,0,0
  :: t_ == CREATE && !(REFUSED(p_)) && held -> rp[c]!EXISTS,0,0,0
  :: t_ == CREATE && !(REFUSED(p_)) && !held -> held = 1; hname = p_; hver = 0; hmark = 0; rp[c]!OK,0,0,0
  :: (t_ == MARK || t_ == TAKE) && !(REFUSED(p_)) && !held -> rp[c]!NOHELD,0,0,0
  :: (t_ == MARK || t_ == TAKE) && !(REFUSED(p_)) && held && OTHERVER(v_) -> rp[c]!BADVER,0,0,0
  :: t_ == MARK && !(REFUSED(p_)) && held && !(OTHERVER(v_)) ->
     assert(fresh); fresh = 0; write(GONE); hmark = nmark; nmark++; rp[c]!OK,0,0,0
  :: t_ == TAKE && !(REFUSED(p_)) && held && !(OTHERVER(v_)) -> write(p_); rp[c]!OK,0,0,0
  fi;
  t_ = 0; p_ = 0; v_ = 0
}

proctype Server(byte c) {
  byte t_, p_, v_;
endsrv:
  do
  :: atomic { !expired[c] && len(rq[c]) > 0 -> serve(c) }
  :: passed[c] < nmark-1 -> passed[c]++      /* time goes by */
  od
}

/* ask sends a request and waits for its reply in r, a, v, m. Those to requests that were given up come before. */
inline ask(t, ver) {
  do
  :: len(rp[me]) > 0 -> rp[me]?r,_,_,_; skipn = (r == DSC -> 0 : skipn-1)
  :: else -> break
  od;
  rq[me]!t,my,ver; r = 0
}

proctype Client(byte me) {
  byte my = NONE, rounds = ROUNDS, r, a, v, m, skipn; bit leaving, unsure, granted;

again:
  atomic {
    if :: rounds == 0 -> goto done :: else -> rounds-- fi;
    expired[me] = 0; skipn = 0;
    do :: len(rq[me]) > 0 -> rq[me]?r,a,v :: else -> break od;
    do :: len(rp[me]) > 0 -> rp[me]?r,a,v,m :: else -> break od;
    r = 0; a = 0; v = 0; m = 0;
    my = nxt; nxt++; stand = stand | BIT(my); owner[my] = me; printf("C%d joins place %d\n", me, my)
  }
turn:
  if
  :: atomic { FIRST(my) && !expired[me] -> SNAP(me); if :: me < NP -> goto grant :: else fi }
  :: atomic { !STANDS(my) || expired[me] -> goto over }
#ifdef CANCEL
  :: goto leave
#endif
  fi;
create:
  atomic { unsure = 1; ask(CREATE, 0) };
  goto reply;
look:
  atomic { ask(GET, 0) };
reply:
  if
  :: atomic { rp[me]?r,a,v,m; if :: r != DSC -> SNAP(me) :: else fi;
       if
       :: r == DSC -> skipn = 0; goto look
       :: r != DSC && skipn > 0 -> skipn--; goto reply
       :: r == NOPLACE && skipn == 0 -> goto over
       :: r == OK && skipn == 0 && !unsure -> goto look        /* a mark */
       :: r == OK && skipn == 0 && unsure -> goto mine
       :: r == EXISTS && skipn == 0 -> unsure = 0; goto look
       :: r == BADVER && skipn == 0 -> unsure = 0; goto look
       :: r == NOHELD && skipn == 0 -> goto create
       :: r == DATA && skipn == 0 ->
          if
#ifndef NONAME
          :: a == my -> goto mine
#endif
          :: a == GONE -> unsure = 0; goto delay
          :: else -> unsure = 0;
#ifdef NOMARK
             m = nmark; nmark++; assert(owed); assert(fresh); fresh = 0; goto waits
#else
             ask(MARK, v); goto reply
#endif
          fi
       fi }
  :: atomic { expired[me] && empty(rp[me]) -> goto over }
#ifdef CANCEL
  :: atomic { !leaving && (len(rp[me]) == 0 || !rp[me]?[DSC,_,_,_]) -> skipn++; goto leave }
#endif
  fi;
delay:
  if :: leaving -> goto leave :: else fi;
waits:
  if
  :: atomic { passed[me] >= m ->
#ifdef NOTAKE
       goto grant
#else
       unsure = 1; ask(TAKE, v); goto reply
#endif
     }
  :: atomic { expired[me] || !STANDS(my) -> goto over }
#ifdef CANCEL
#ifdef TAKEALONG
  :: atomic { ask(REL, 0); goto leaves }
#else
  :: goto leave
#endif
#endif
  fi;
mine:
  unsure = 0;
grant:                /* if it gives up, too: then it releases at once */
  atomic {
    granted = 1; r = 0; a = 0; v = 0; m = 0; printf("C%d granted %d, need %d passed %d\n", me, my, need, passed[me]);
    if
    :: me < NP -> skip
    :: me >= NP && !STANDS(my) ->   /* it does not know that yet */
       need = (diedat[my] > need && held && (hname == my || hname == GONE) -> diedat[my] : need)
    :: me >= NP && STANDS(my) -> assert(need == 0 || passed[me] >= need); need = 0; lease[me] = my
    fi;
    if :: leaving -> goto release :: else fi
  }
  if
  :: skip
  :: atomic { losable > 0 && me >= NP -> losable--;
       if :: lease[me] == my && held -> need = nmark; lease[me] = NONE :: else -> lease[me] = NONE fi;
#ifdef LOSTCLEAN
       skip
#else
       if :: held && hname == my -> owed = 1; fresh = 1 :: else fi; goto alone
#endif
     }
  fi;
release:
  atomic { lease[me] = NONE; if :: me < NP -> goto alone :: else -> ask(REL, 0) fi };
leaves:
  if
  :: atomic { rp[me]?r,a,v,m;
       if
       :: r == DSC && granted -> skipn = 0; ask(REL, 0); goto leaves
       :: r == DSC && !granted -> skipn = 0; leaving = 1; goto look
       :: r != DSC && skipn > 0 -> skipn--; goto leaves
       :: r == NOHELD && skipn == 0 ->
#ifdef NOAGAIN
          goto over
#else
          goto alone
#endif
       :: (r == OK || r == NOPLACE) && skipn == 0 -> goto over
       fi }
  :: atomic { expired[me] && empty(rp[me]) -> goto over }
  fi;
leave:                /* of a waiter */
#ifndef NOLOOK
  atomic { if :: unsure && !leaving -> leaving = 1; ask(CREATE, 0); goto reply :: else fi };
#endif
alone:
  atomic { ask(GO, 0) };
away:
  if
  :: atomic { rp[me]?r,a,v,m;
       if
       :: r == DSC -> skipn = 0; goto alone
       :: r != DSC && skipn > 0 -> skipn--; goto away
       :: (r == OK || r == NOPLACE) && skipn == 0 -> goto over
       fi }
  :: atomic { expired[me] && empty(rp[me]) -> goto over }
  fi;
over:
  atomic {
    if :: STANDS(my) && !expired[me] -> assert(0) :: else fi;    /* nobody would delete it */
    lease[me] = NONE; my = NONE; r = 0; a = 0; v = 0; m = 0; unsure = 0; leaving = 0; granted = 0; goto again
  }
done:
  atomic { fin++; do :: len(rp[me]) > 0 -> rp[me]?r,a,v,m :: else -> break od; r = 0; a = 0; v = 0; m = 0 }
}

active proctype Adversary() {
  byte e = EXP, v = EVI, d = DISC, o = OPDEL, l = ROLL, c, i;
endadv:
  do
#if EXP > 0
  :: atomic { e > 0 -> e--; c = 0; do :: c < NC-1 -> c++ :: break od;
       if
       :: !expired[c] -> expired[c] = 1; printf("EXPIRE C%d\n", c);
          do :: len(rq[c]) > 0 -> rq[c]?_,_,_ :: else -> break od;
          i = 0; do :: i < MAXP -> if :: STANDS(i) && owner[i] == c -> goes(i) :: else fi; i++ :: else -> break od; i = 0
       :: else
       fi; c = 0 }
#endif
#if EVI > 0
  :: atomic { v > 0 -> v--; i = 0; do :: i < MAXP-1 -> i++ :: break od;
       if :: STANDS(i) -> printf("EVICT %d\n", i); goes(i) :: else fi; i = 0 }
#endif
#if DISC > 0
  :: atomic { d > 0 -> d--; c = 0; do :: c < NC-1 -> c++ :: break od;
       if
       :: !expired[c] && len(rq[c]) + len(rp[c]) > 0 -> printf("DISCONNECT C%d\n", c);
          do :: len(rq[c]) > 0 -> rq[c]?_,_,_ :: else -> break od;
          do :: len(rp[c]) > 0 -> rp[c]?_,_,_,_ :: else -> break od;
#ifdef STALE
          lag[c] = 1;
#endif
          rp[c]!DSC,0,0,0
       :: else
       fi; c = 0 }
#endif
#if OPDEL > 0
  :: atomic { o > 0 && held -> o--; clear(); need = 0 }
#endif
#if ROLL > 0
  :: atomic { l > 0 && nxt > 0 -> l--; 
       if
       :: stand == 0 && held ->
#ifdef ROLLDROP
          clear()
#else
          hname = GONE; hver = 0; hmark = nmark; nmark++; fresh = 0
#endif
       :: else
       fi }
#endif
  :: false
  od
}

init {
  byte i;
  atomic {
    i = 0; do :: i < NC -> lease[i] = NONE; run Client(i); run Server(i); i++ :: else -> break od; i = 0
  }
  fin == NC;
  assert(stand == 0 && (!held || owed))
}
