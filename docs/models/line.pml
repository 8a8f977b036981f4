/* line.pml: the ordering core, for Mutex (default) and RWLock (-DRW), with predecessors that are guessed.
 *
 * Server: places (ephemeral sequential children), one-shot watches on their data and on their children, per-client
 * ordered queue of replies and events. Client: join, list, arm (own place and predecessor in one write), wait,
 * hand-over, cancel, release, downgrade. Adversary: expiry, an operator who sets the data of any place and deletes any
 * place, disconnect.
 *
 * The signal: an exclusive holder leaves by multi[ setData(place), delete(place) ]. A waiter watches its predecessor's
 * data and children, and its own place's data. It is granted on events alone if NodeDataChanged and NodeDeleted of the
 * predecessor came with one zxid above 0, on the connection on which these watches were answered, and the own watch has
 * not fired before. Anything else that ends the wait means: list. A change of the data alone does not end it.
 * After a reconnect the own watch is armed again (setWatches) before any request passes. The two on the predecessor are
 * not: the client asks for them again, without a list.
 * An event's z stands for its zxid. The client only compares those of one place, so it is enough that they are equal if
 * and only if the transaction is the same: 0 no zxid (-1 on the wire: a server before 3.9, and what setWatches fires),
 * 1 the holder's farewell, PLAIN any other deletion, and a number of its own for each change by the operator.
 *
 * Switches (all as -D):
 *   NC clients, NF of them foreign (Curator-like), ROUNDS acquisitions each
 *   EXP EVI FSET DISC  budgets of the adversary: expiries, deletions and changes by an operator, disconnects;
 *             CANCEL: a waiter may give up; LOST: the join's reply may be lost
 *   OLD       each connection may be one to a server before 3.9, whose events bear no zxid
 *   ORDER     0 own request first; 1 predecessor first, the own answer is not awaited (must break);
 *             3 in any order, all answers awaited
 *   DOWN      downgrade possible           CURDOWN foreign writer may downgrade Curator's way
 *   Which clause of the rule is left out (each must break; MINUSONE not yet run to its end, RULED with RW and DOWN only):
 *             ANYZXID   the two events' zxids are not compared     SETALONE  a change of the data is enough
 *             MINUSONE  zxids that are not known are equal (with OLD)
 *             RULED     NodeDeleted of the only place ahead is enough (RULED_R: for readers only)
 *             NOOWN     no own watch at all                        NOLOOK    its event is not looked at first
 *             OWNSET    a change of the own data is ignored, and the own watch is not armed again
 *             NOGATE    requests pass on a new connection before the own watch is armed again
 *             REARM     the watches on the predecessor live on, too: setWatches arms them again (with SPLIT: in chunks,
 *                       in any order)
 *   Clauses that may be redundant (expected to hold, not yet run to the end):
 *             UNANSWERED  events that come before the answers for the predecessor are believed (not those of ORDER 1)
 *             OTHERCONN   a change is compared with a deletion that comes over a later connection
 *   Who else says farewell (each must break): CANCELSIG a waiter that gives up   DOWNSIG a downgrade
 *             READSIG a reader
 *   GUESS     the line's data say who joined last; who joins reads them first, and watches the place of that
 *             name and of the number before its own, without a list. Foreign joins write no data.
 *   REMAKE    budget: the empty line is deleted, and the next join makes it anew, with numbers from 0
 *   EARLY     the own watch is requested before the list, not after it
 *   ANYNUM    the guess names the last one's place whatever its number (must break)
 *   GONERW    with RW, too, the only place ahead that is gone when it is watched has left for good (with DOWN: must
 *             break, since a reader's place has taken its number)
 *   BLIND     a guess that does not exist is a place that has gone with a farewell (must break)
 *   READGUESS a reader waits for a reader that it guessed, and does not list when that goes (must break)
 */
#ifndef NC
#define NC 3
#endif
#ifndef NF
#define NF 0
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
#ifndef FSET
#define FSET 0
#endif
#ifndef DISC
#define DISC 0
#endif
#ifndef ORDER
#define ORDER 0
#endif
#define MAXN (NC*ROUNDS)
#if defined(RW) && !defined(GONERW)
#define GONE 0
#else
#define GONE (!foreign)
#endif
#ifdef RW
#define MAXP (2*MAXN)      /* p >= MAXN: reader place made by a downgrade of writer p-MAXN */
#else
#define MAXP MAXN
#endif
#define NONE 31
#ifndef REMAKE
#define REMAKE 0
#endif
#define NUM(p) num[p]
#ifdef READGUESS
#define GUESSES 1
#else
#define GUESSES (!isr || !reader[r])
#endif
#define BIT(p) (1<<(p))
#define HAS(m,p) (((m)>>(p))&1)

/* messages to a client */
#define DEL 1
#define CHG 2
#define ROK 3    /* arm reply: exists; one for the two watches on the predecessor */
#define RNO 4    /* arm reply: NoNode */
#define DSC 5    /* connection was lost, a new one is up */

#define FAREWELL 1
#define PLAIN 14
#define NOZ 15   /* no change has been seen */
#define CHILD 64 /* a request: for the watch on the children, not on the data */

byte ln; /* how often the line was made anew */
bit alive[MAXP]; byte owner[MAXP]; bit firstg[MAXP]; bit foreignp[MAXP];
bit reader[MAXP];
byte nxt;
byte num[MAXP];       /* what the server gave */
byte cnt;             /* the line's count of creates */
byte rec = NONE;      /* the line's data: who joined last */
int w[NC];            /* server: armed watches on data (set of places) */
int x[NC];            /* server: armed watches on children */
int cw[NC];           /* client's table of the watches to be re-armed, as received: its own; a foreign client's all */
int sw[NC];           /* snapshot of the table at reconnect, to be re-armed */
int fsn[NC];          /* places with a newer mzxid than the client saw (foreign setData missed) */
byte hold[NC];
bit expired[NC];
#ifdef OLD
bit old[NC];          /* connected to a server before 3.9 */
#define Z(c,z) (old[c] -> 0 : z)
#else
#define Z(c,z) z
#endif
#ifdef REARM
int cx[NC];           /* as cw and sw, for children */
int sx[NC];
#define REARMED(c,p) 1
#define PENDING(c) (sw[c] | sx[c])
#else
#define REARMED(c,p) ((c) < NF || owner[p] == (c))
#define PENDING(c) sw[c]
#endif
byte fin;
chan q[NC] = [MAXP+9] of { byte, byte, byte };
chan rq[NC] = [6] of { byte };

byte f_, m_, mn_, mw_, t_, p_, z_, n_, k_;

inline fire(p,t,z) {
  f_ = 0;
  do
  :: f_ < NC ->
     if
     :: HAS(w[f_],p) || (t == DEL && HAS(x[f_],p)) ->
        w[f_] = w[f_] & ~BIT(p); cw[f_] = cw[f_] & ~BIT(p);
        if :: t == DEL -> x[f_] = x[f_] & ~BIT(p);
#ifdef REARM
              cx[f_] = cx[f_] & ~BIT(p)
#endif
           :: else
        fi;
        q[f_]!t,p,Z(f_,z)
     :: else
     fi;
     f_++
  :: else -> break
  od; f_ = 0
}
inline mark() {       /* ghost: which places are entitled now */
  mn_ = NONE; mw_ = NONE; m_ = 0;
  do
  :: m_ < MAXP ->
     if
     :: alive[m_] ->
        if :: NUM(m_) < mn_ -> mn_ = NUM(m_) :: else fi;
        if :: !reader[m_] && NUM(m_) < mw_ -> mw_ = NUM(m_) :: else fi
     :: else
     fi; m_++
  :: else -> break
  od;
  m_ = 0;
  do
  :: m_ < MAXP ->
     if
     :: alive[m_] && !reader[m_] && NUM(m_) == mn_ -> firstg[m_] = 1
     :: alive[m_] && reader[m_] && NUM(m_) <= mw_ -> firstg[m_] = 1   /* == mw_: Curator's downgrade */
     :: else
     fi; m_++
  :: else -> break
  od;
  mn_=0; mw_=0; m_=0
}
inline del(p,z) {
  alive[p] = 0; printf("DEL place %d (z %d: 1 farewell)\n", p, z);
  if :: z == FAREWELL -> fire(p,CHG,z) :: else fi;
  fire(p,DEL,z); mark() }

inline checkgrant(me, my) {
  printf("C%d GRANTED place %d (alive %d first %d)\n", me, my, alive[my], firstg[my]);
#ifdef STRICT
  assert(!expired[me]);    /* lease clock: no grant on an event read after the session ended */
#endif
#ifndef LIVEONLY
  assert(firstg[my]);
#endif
  /* was entitled at some moment while it existed */
  hold[me] = my; 
  if
  :: alive[my] && !reader[my] ->
     m_ = 0; do :: m_ < NC -> assert(m_ == me || hold[m_] == NONE || !alive[hold[m_]]); m_++ :: else -> break od
  :: alive[my] && reader[my] ->
     m_ = 0; do :: m_ < NC -> assert(m_ == me || hold[m_] == NONE || !alive[hold[m_]] || reader[hold[m_]]); m_++ :: else -> break od
  :: else
  fi; m_ = 0
}

proctype Client(byte me; bit foreign) {
  byte my = NONE, pred = NONE, rounds = ROUNDS, t, p, z, n, i;
  byte zset = NOZ;     /* zxid of the last change of the predecessor's data on this connection */
  bit only, ownarmed, ownout, outst, isr, stash; byte r = NONE, rl;
#ifdef NOLOOK
  bit ownfired;
#endif
  /* ownarmed: own watch answered; ownout, outst: own answer, predecessor's answer awaited; stash: farewell seen, the
     own answer awaited */

again:
  if
  :: rounds == 0 -> goto done
  :: else -> rounds--
  fi;
#ifdef GUESS
  atomic { if :: !foreign -> r = rec :: r = NONE fi;   /* sent together with the join, carried out before it */
    rl = ln }
#endif
join:
  atomic {
#ifdef NOLOOK
    ownfired = 0;
#endif
    if
    :: expired[me] -> expired[me] = 0; w[me] = 0; x[me] = 0; cw[me] = 0; sw[me] = 0; fsn[me] = 0;
#ifdef REARM
       cx[me] = 0; sx[me] = 0;
#endif
       do :: len(q[me]) > 0 -> q[me]?t,p,z :: else -> break od
    :: else
    fi;
    t = 0; p = 0; z = 0; ownarmed = 0; ownout = 0; pred = NONE; outst = 0; stash = 0; zset = NOZ;
    my = nxt; nxt++; num[my] = cnt; cnt++;
    alive[my] = 1; owner[my] = me; foreignp[my] = foreign; printf("C%d joins place %d\n", me, my);
#ifdef RW
    if :: reader[my] = 1; isr = 1 :: reader[my] = 0; isr = 0 fi;
#endif
    if :: !foreign -> rec = my :: else fi;
    mark();
    n = 0; i = 0;
    do :: i < MAXP -> n = n + alive[i]; i++ :: else -> break od; i = 0;
#ifdef GUESS
    if :: rl != ln -> r = NONE :: else fi;                    /* the czxids tell */
#endif
    if
    :: n == 1 && !foreign -> n = 0; r = NONE;                 /* Stat.NumChildren == 1 */
       goto grant
#ifdef LOST
    :: n == 1 && !foreign -> n = 0; goto list
#endif
#ifdef GUESS
    :: n > 1 && !foreign && r != NONE && GUESSES -> n = 0; only = 0;
#ifdef ANYNUM
       pred = r;
#else
       pred = (num[r] + 1 == num[my] -> r : NONE);   /* NONE: a name that does not exist */
#endif
       goto arm
    :: n > 1 && !foreign && r != NONE && !(GUESSES) -> n = 0; goto list
    :: (n > 1 && r == NONE) || foreign -> n = 0; goto list
#else
    :: n > 1 || foreign -> n = 0; goto list
#endif
    fi
  }
list:
#ifdef EARLY
  atomic { if :: !foreign && !ownarmed && !ownout -> ownout = 1; rq[me]!my :: else fi };
#endif
  atomic {
    r = NONE; zset = NOZ;
    if
    :: expired[me] -> goto over
    :: !expired[me] && !alive[my] -> goto over       /* evicted: own place not in the list */
    :: else ->
       pred = NONE; n = 0; i = 0;
       do
       :: i < MAXP ->
          if
          :: alive[i] && i != my && NUM(i) <= NUM(my) && (!isr || !reader[i]) -> 
             n++; if :: pred == NONE || NUM(i) > NUM(pred) || (NUM(i) == NUM(pred) && i > pred) -> pred = i :: else fi
          :: else
          fi; i++
       :: else -> break
       od; i = 0;
       only = (n == 1); printf("C%d lists: place %d pred %d ahead %d\n", me, my, pred, n);
       if
       :: n == 0 -> pred = NONE; goto grant
       :: else -> n = 0
       fi
    fi
  }
arm:
  atomic {
    outst = 1; stash = 0;
    if
    :: foreign -> ownarmed = 1; rq[me]!pred
    :: !foreign ->
#ifdef NOOWN
       ownarmed = 1; rq[me]!pred; rq[me]!pred+CHILD
#else
       if
       :: ownarmed || ownout -> rq[me]!pred; rq[me]!pred+CHILD
       :: else -> ownout = 1;
#if ORDER == 0
          rq[me]!my; rq[me]!pred; rq[me]!pred+CHILD
#elif ORDER == 1
          rq[me]!pred; rq[me]!pred+CHILD; rq[me]!my
#else
          if :: rq[me]!my; rq[me]!pred; rq[me]!pred+CHILD :: rq[me]!pred; rq[me]!pred+CHILD; rq[me]!my fi
#endif
       fi
#endif
    fi
  }
wait:
  if
  :: atomic { q[me]?t,p,z ->
     if
     :: t == ROK && p == my -> ownarmed = 1; ownout = 0; t = 0; p = 0;
        if
        :: stash -> stash = 0; goto grant
        :: else -> goto wait
        fi
     :: t == RNO && p == my -> goto over
     :: t == ROK && p == pred -> outst = 0; t = 0; p = 0; goto wait
     :: t == RNO && p == pred && outst -> t = 0; p = 0; outst = 0;
#ifdef BLIND
        goto grant
#else
        if
        :: !GONE || !only -> goto list
        :: GONE && only && ownarmed -> goto grant
        :: GONE && only && !ownarmed -> stash = 1; goto wait
        fi
#endif
#ifndef NOLOOK
     :: t == DEL && p == my && !foreign -> goto over       /* evicted */
#else
     :: t == DEL && p == my && !foreign && empty(q[me]) -> goto over
     :: t == DEL && p == my && !foreign && nempty(q[me]) -> t = 0; p = 0; z = 0; ownfired = 1; goto wait2
#endif
#ifdef OWNSET
     :: t == CHG && p == my && !foreign -> t = 0; p = 0; z = 0; goto wait
#else
     :: t == CHG && p == my && !foreign -> ownarmed = 0; t = 0; p = 0; z = 0; goto list  /* somebody set data on it: arm again */
#endif
     :: (t == DEL || t == CHG) && p == pred -> goto decide
     :: t == DSC ->
        t = 0; z = 0; stash = 0;
#ifndef OTHERCONN
        zset = NOZ;
#endif
#ifdef REARM
        if
        :: p == 1 -> p = 0; ownarmed = 0; ownout = 0; outst = 0; goto list
        :: else -> p = 0; goto wait
        fi
#else
        if
        :: foreign && p == 1 -> p = 0; outst = 0; goto list   /* a request failed: list again */
        :: foreign && p == 0 -> goto wait
        :: !foreign && ownarmed -> p = 0; goto arm            /* the predecessor's watches are lost */
        :: !foreign && !ownarmed -> p = 0; ownout = 0; outst = 0; goto list
        fi
#endif
     :: else -> t = 0; p = 0; z = 0; goto wait       /* stale reply or event of an earlier place */
     fi }
  :: expired[me] && empty(q[me]) -> goto over
#ifdef CANCEL
  :: goto cancel
#endif
  fi;
#ifdef NOLOOK
wait2:  /* own event lies unread in its channel; the predecessor's is handled as it comes */
  if
  :: atomic { q[me]?t,p,z ->
     if
     :: (t == DEL || t == CHG) && p == pred -> goto decide
     :: else -> t = 0; p = 0; z = 0; goto wait2
     fi }
  :: empty(q[me]) -> goto over
  fi;
#endif
decide:
  atomic { printf("C%d event %d on %d, z %d after %d\n", me, t, p, z, zset);
    if
    :: foreign -> t = 0; p = 0; z = 0; outst = 0; goto list
#ifndef SETALONE
    :: !foreign && t == CHG ->        /* wakes nobody: the watch on the children stands */
       zset = z; t = 0; p = 0; z = 0;
#ifdef NOLOOK
       if :: ownfired -> goto wait2 :: else fi;
#endif
       goto wait
#endif
    :: else ->
       n = (zset == z);               /* is it a farewell? */
#ifdef ANYZXID
       n = (zset != NOZ);
#endif
#ifdef SETALONE
       if :: t == CHG -> zset = z; n = 1 :: else fi;
#endif
#ifndef MINUSONE
       n = n && z > 0 && zset > 0;
#endif
#ifndef UNANSWERED
       n = n && !outst;
#endif
#if defined(RULED)
       n = n || only;
#elif defined(RULED_R)
       n = n || (only && isr);
#elif defined(READGUESS)
       n = n || (r != NONE && isr && reader[pred]);
#endif
       t = 0; p = 0; z = 0; outst = 0; zset = NOZ;
       if
       :: !n -> goto list
       :: n && ownarmed -> n = 0; goto grant
       :: n && !ownarmed -> n = 0;
#if ORDER == 1
          goto grant
#else
          assert(ownout); stash = 1; goto wait   /* the answer for the own watch is still to come */
#endif
       fi
    fi
  }
grant:
  atomic { pred = NONE; only = 0; r = NONE; outst = 0; zset = NOZ; t = 0; p = 0; z = 0; n = 0; checkgrant(me, my) }
  if
  :: skip
#ifdef DOWN
  :: atomic { !isr && !foreign && !expired[me] && alive[my] ->
       /* multi[create reader place of the same number, delete writer place] */
       i = my + MAXN; num[i] = num[my]; cnt++; alive[i] = 1; reader[i] = 1; owner[i] = me; firstg[i] = 1;
#ifdef DOWNSIG
       del(my, FAREWELL);
#else
       del(my, PLAIN);
#endif
       my = i; i = 0; isr = 1; hold[me] = my }
#endif
#ifdef CURDOWN
  :: atomic { !isr && foreign && !expired[me] && alive[my] ->
       i = my + MAXN; num[i] = num[my]; cnt++; alive[i] = 1; reader[i] = 1; owner[i] = me; firstg[i] = 1; foreignp[i] = 1; mark() };
     atomic {
       if :: alive[my] -> del(my, PLAIN) :: else fi;
       my = i; i = 0; isr = 1;
       if :: alive[my] && !expired[me] -> hold[me] = my :: else -> hold[me] = NONE fi }
#endif
  fi;
  /* critical section ends; clean release */
  atomic {
    hold[me] = NONE; ownarmed = 0; ownout = 0;
    if
    :: alive[my] && !expired[me] ->
       if
       :: foreign -> del(my, PLAIN)
#ifndef READSIG
       :: !foreign && isr -> del(my, PLAIN)
       :: !foreign && !isr -> del(my, FAREWELL)
#else
       :: !foreign -> del(my, FAREWELL)
#endif
       fi
    :: else
    fi;
    firstg[my] = 0; isr = 0; my = NONE; goto again
  }
cancel:
  atomic {
    if
    :: alive[my] && !expired[me] ->
#ifdef CANCELSIG
       del(my, FAREWELL)
#else
       del(my, PLAIN)
#endif
    :: else
    fi;
    goto over
  }
over:
  atomic { if :: my != NONE && !alive[my] -> firstg[my] = 0 :: else fi; my = NONE; pred = NONE; only = 0; r = NONE; ownarmed = 0; ownout = 0; outst = 0; t = 0; p = 0; z = 0; n = 0; isr = 0; stash = 0; zset = NOZ; goto again }
done:
  atomic {             /* what still comes changes nothing */
    fin++; w[me] = 0; x[me] = 0; cw[me] = 0; sw[me] = 0; fsn[me] = 0;
#ifdef REARM
    cx[me] = 0; sx[me] = 0;
#endif
    do :: len(q[me]) > 0 -> q[me]?t,p,z :: else -> break od;
    do :: len(rq[me]) > 0 -> rq[me]?p :: else -> break od;
    t = 0; p = 0; z = 0
  }
}

inline serve(c) {
  rq[c]?p_; k_ = p_ / CHILD; p_ = p_ % CHILD;
  if
  :: p_ != NONE && alive[p_] ->
     if
     :: k_ -> x[c] = x[c] | BIT(p_); q[c]!ROK,p_,0;
#ifdef REARM
        cx[c] = cx[c] | BIT(p_)
#endif
     :: !k_ -> w[c] = w[c] | BIT(p_);
        if :: REARMED(c,p_) -> cw[c] = cw[c] | BIT(p_) :: else fi;
        if :: c < NF || owner[p_] == c -> q[c]!ROK,p_,0 :: else fi   /* else the answer for the children tells */
     fi
  :: else ->
     q[c]!RNO,p_,0;
     if :: !k_ && len(rq[c]) > 0 && rq[c]?[eval(p_+CHILD)] -> rq[c]?eval(p_+CHILD) :: else fi   /* the same answer again */
  fi; p_ = 0; k_ = 0
}
inline rearm(c,p) {
  printf("setWatches C%d path %d alive=%d\n", c, p, alive[p]);
  if
  :: !alive[p] -> cw[c] = cw[c] & ~BIT(p); q[c]!DEL,p,0;
#ifdef REARM
     cx[c] = cx[c] & ~BIT(p)
#endif
  :: alive[p] && HAS(fsn[c],p) && HAS(sw[c],p) -> cw[c] = cw[c] & ~BIT(p); q[c]!CHG,p,0
  :: else -> w[c] = w[c] | (sw[c] & BIT(p))
  fi;
#ifdef REARM
  if :: alive[p] -> x[c] = x[c] | (sx[c] & BIT(p)) :: else fi;
  sx[c] = sx[c] & ~BIT(p);
#endif
  sw[c] = sw[c] & ~BIT(p);
  fsn[c] = fsn[c] & ~BIT(p)
}

proctype Server(byte c) {
endsrv:
  do
  #ifdef NOGATE
  :: atomic { !expired[c] && len(rq[c]) > 0 -> serve(c) }
#else
  :: atomic { !expired[c] && len(rq[c]) > 0 && !PENDING(c) -> serve(c) }
#endif
#if DISC > 0
  :: atomic { !expired[c] && PENDING(c) ->
#ifdef SPLIT
       k_ = 0; do :: k_ < MAXP-1 -> k_++ :: break od;
       if :: HAS(PENDING(c),k_) :: else -> k_ = 0; do :: !HAS(PENDING(c),k_) -> k_++ :: else -> break od fi;
       rearm(c,k_); k_ = 0
#else
       /* one request, any order inside */
       if
       :: k_ = 0; do :: k_ < MAXP -> if :: HAS(PENDING(c),k_) -> rearm(c,k_) :: else fi; k_++ :: else -> break od
       :: k_ = MAXP; do :: k_ > 0 -> k_--; if :: HAS(PENDING(c),k_) -> rearm(c,k_) :: else fi :: else -> break od
       fi; k_ = 0
#endif
     }
#endif
  od
}

active proctype Adversary() {
  byte e = EXP, v = EVI, s = FSET, d = DISC, m = REMAKE, c, i; bit keep;
endadv:
  do
#if EXP > 0
  :: atomic { e > 0 -> e--; c = 0; do :: c < NC-1 -> c++ :: break od;
       if
       :: !expired[c] ->
          expired[c] = 1; printf("EXPIRE C%d\n", c); w[c] = 0; x[c] = 0; sw[c] = 0; fsn[c] = 0;
#ifdef REARM
          sx[c] = 0;
#endif
          do :: len(rq[c]) > 0 -> rq[c]?p_ :: else -> break od; p_ = 0;
          /* all its places go in one transaction */
          i = 0; do :: i < MAXP -> if :: alive[i] && owner[i] == c ->
            alive[i] = 0; fire(i,DEL,PLAIN) :: else fi; i++ :: else -> break od;
          mark(); i = 0
       :: else
       fi; c = 0 }
#endif
#if EVI > 0
  :: atomic { v > 0 -> v--; i = 0; do :: i < MAXP-1 -> i++ :: break od; if :: alive[i] -> del(i,PLAIN) :: else fi; i = 0 }
#endif
#if REMAKE > 0
  :: atomic { m > 0 && cnt > 0 -> m--; i = 0; do :: i < MAXP && !alive[i] -> i++ :: else -> break od;
       if :: i == MAXP -> cnt = 0; rec = NONE; ln++ :: else fi; i = 0 }
#endif
#if FSET > 0
  :: atomic { s > 0 -> s--; i = 0; do :: i < MAXP-1 -> i++ :: break od;
       if :: alive[i] -> printf("FSET place %d\n", i); fire(i,CHG,2+s);
             c = 0; do :: c < NC -> if :: HAS(sw[c],i) -> fsn[c] = fsn[c] | BIT(i) :: else fi; c++ :: else -> break od; c = 0
          :: else
       fi; i = 0 }
#endif
#if DISC > 0
  :: atomic { d > 0 -> d--; c = 0; do :: c < NC-1 -> c++ :: break od;
       if
       :: !expired[c] ->
       n_ = len(q[c]); keep = 1; i = 0; k_ = (len(rq[c]) > 0);
       do
       :: i < n_ -> q[c]?t_,p_,z_;
          if :: keep -> keep = 1 :: keep = 0 fi;
          if
          :: keep -> q[c]!t_,p_,z_
          :: !keep && t_ == ROK -> k_ = 1; if :: REARMED(c,p_) -> cw[c] = cw[c] & ~BIT(p_) :: else fi;
#ifdef REARM
             cx[c] = cx[c] & ~BIT(p_)
#endif
          :: !keep && t_ == RNO -> k_ = 1
          :: !keep && t_ == DSC && p_ == 1 -> k_ = 1
          :: !keep && (t_ == DEL || t_ == CHG) && REARMED(c,p_) -> cw[c] = cw[c] | BIT(p_);
             if :: t_ == CHG && alive[p_] -> fsn[c] = fsn[c] | BIT(p_) :: else fi
          :: else
          fi; i++
       :: else -> break
       od;
       do :: len(rq[c]) > 0 -> rq[c]?p_ :: else -> break od;
       w[c] = 0; x[c] = 0; sw[c] = cw[c];
#ifdef REARM
       sx[c] = cx[c];
#endif
#ifdef OLD
       if :: old[c] = 1 :: old[c] = 0 fi;
#endif
       q[c]!DSC,k_,0; printf("DISCONNECT C%d table %d\n", c, sw[c])
       :: else
       fi;
       n_ = 0; i = 0; t_ = 0; p_ = 0; z_ = 0; k_ = 0; keep = 0; c = 0 }
#endif
  :: false
  od
}

init {
  byte i;
  atomic {
    i = 0; do :: i < NC -> hold[i] = NONE;
#ifdef OLD
       if :: old[i] = 1 :: old[i] = 0 fi;
#endif
       run Client(i, (i < NF)); run Server(i); i++ :: else -> break od; i = 0
  }
  fin == NC;
  atomic { i = 0; do :: i < MAXP -> assert(!alive[i]); i++ :: else -> break od }
}
