/* barrier.pml: the cyclic Barrier of N members, and the signal from which its members
 * learn that their round is open.
 *
 * Server: one round (of a fixed name; its incarnation is its czxid), its ready (0 none,
 * 1 empty, 2 opened with `content`, a set of numbers), the signal below it (0 none,
 * 1 empty, 2 raised: it has a child), and the members, a set of numbers that begin anew in
 * every incarnation. Every atomic step is one request. Watches are one-shot, by name, and
 * fire into a pending event that the participant takes at any later time. A server that
 * lags needs no modeling: a stale read is one that happened earlier.
 *
 * The opening raises the signal if the members with which the round is opened have the
 * numbers 1 to N, and deletes it otherwise. A member has one watch, on the children of the
 * signal. A change of the children that comes over the connection on which the watch was
 * answered is believed: no read follows. After a reconnect, and at any other event, the
 * member reads ready. Where there is no signal it watches ready.
 *
 * -DN members of a round, -DNP participants, -DR calls of Wait each. Budgets of the
 * adversary: CA cancels, CR crashes (REJOIN: a new process takes the dead one's place), XP
 * expiries that the process survives, LO lost replies (join, opening), SP spurious
 * wake-ups, UN cancels while disconnected, RC reconnects of a member that waits, EV
 * members deleted by an operator while they wait, SD signals deleted by an operator.
 *
 * Mutants, each of which must break: MNTH MNOCHK MLAST MADMIT MADMITANY MCANRET MCNTRDY
 * MSPLIT MLOSTJ MLOSTO MNONODE MNOFIRST, and of the signal:
 *   MREARMED  an event is believed although a reconnect has set the watch again
 *   MHOLES    the signal is raised although the numbers are not 1 to N
 *   MSURPLUS  the number is not compared with N
 *   MANYROUND a watch on the signal of another round is taken
 *   MSILENT   a signal that is not raised is left as it is
 */
#ifndef N
#define N 2
#endif
#ifndef NP
#define NP 3
#endif
#ifndef R
#define R 2
#endif
#ifndef CA
#define CA 0
#endif
#ifndef CR
#define CR 0
#endif
#ifndef XP
#define XP 0
#endif
#ifndef LO
#define LO 0
#endif
#ifndef SP
#define SP 0
#endif
#ifndef UN
#define UN 0
#endif
#define FIXC
#define FIXE
#define FIXD
#define FIXX
#ifndef RC
#define RC 0
#endif
#ifndef EV
#define EV 0
#endif
#ifndef SD
#define SD 0
#endif
#define ALL ((1<<(N+1))-2)   /* the numbers 1 to N */
#define BIT(s) (1<<(s))
#define HAS(m,s) (((m)>>(s))&1)
#define NONE 0
#define MAXJ (NP+CA+CR+XP+LO+UN+1)   /* more joins than this in one generation: somebody spins */

/* server */
bit gex; byte inc; byte rdy; short content; short mset; byte seq;
bit wr[NP];          /* watch on ready */
byte wm[NP];         /* watch on a member: its number, 0 none */
bit er[NP], em[NP];  /* events on their way */
byte sig;            /* the signal */
bit ws[NP];          /* watch on the signal's children */
bit cf[NP];          /* it was answered on the present connection */
byte es[NP];         /* its event: 1 a change of the children, to be believed; 2 any other */
byte wi[NP];         /* of the signal in this incarnation of the round */
bit dc[NP];          /* disconnected: events do not come */
bit ms[NP];          /* the signal was created or raised since */
/* adversary */
byte ca = CA, cr = CR, xp = XP, lo = LO, sp = SP, un = UN, rc = RC, ev = EV, sd = SD;
/* ghosts */
byte mown[NP];       /* number of p's member, 0 none */
bit nm[NP];          /* p's present Wait has been named by an opening */
byte st[NP];         /* 0 runs, 1 waits on ready, 2 early comer waits, 3 finished, 4 dead */
byte ni[NP];         /* its index there */
byte lastinc[NP];    /* generation that last let p through */
byte started;
byte x_, c_, w_;
short k_;

inline fireR() { x_ = 0; do :: x_ < NP -> if :: wr[x_] -> wr[x_] = 0; er[x_] = 1 :: else fi; x_++ :: else -> break od; x_ = 0 }
/* the watches on the signal fire: its children have changed, or it is gone */
inline fireS(changed) { x_ = 0;
  do
  :: x_ < NP ->
     if
     :: dc[x_] -> ms[x_] = ms[x_] | changed
     :: !dc[x_] && ws[x_] -> ws[x_] = 0;
#ifdef MREARMED
        es[x_] = (changed -> 1 : 2)
#else
        es[x_] = (changed && cf[x_] -> 1 : 2)
#endif
     :: else
     fi; x_++
  :: else -> break
  od; x_ = 0 }
inline gone() { gex = 0; rdy = 0; content = 0; fireR(); if :: sig != 0 -> sig = 0; fireS(0) :: else fi }
inline reset(me) { wr[me] = 0; er[me] = 0; wm[me] = 0; em[me] = 0; ws[me] = 0; cf[me] = 0; wi[me] = 0; es[me] = 0; dc[me] = 0; ms[me] = 0 }
inline delM(me) {
  if
  :: mown[me] != 0 ->
     mset = mset & ~BIT(mown[me]); x_ = 0;
     do :: x_ < NP -> if :: wm[x_] == mown[me] -> wm[x_] = 0; em[x_] = 1 :: else fi; x_++ :: else -> break od; x_ = 0;
     mown[me] = 0
  :: else
  fi
}
inline count(m) { k_ = m; c_ = 0; do :: k_ != 0 -> c_ = c_ + (k_ & 1); k_ = k_ >> 1 :: else -> break od }
/* how many of m come before number s */
inline rank(m,s) { count(m & (BIT(s)-1)) }
inline last(m,v) { k_ = m; v = 0; do :: k_ > 1 -> v++; k_ = k_ >> 1 :: else -> break od; k_ = 0 }
/* the first N of mset */
inline first(v) {
  v = 0; c_ = 0; x_ = 1;
  do
  :: x_ < seq && c_ < N ->
#ifdef MNOFIRST
     if :: HAS(mset,x_) -> v = v | BIT(x_) :: else fi; x_++
#else
     if :: HAS(mset,x_) -> v = v | BIT(x_); c_++ :: else fi; x_++
#endif
  :: else -> break
  od; x_ = 0; c_ = 0
}
/* entering a state in which nothing is done: is everybody at rest, and if so, rightly? */
inline settle(me,s) {
  st[me] = s; x_ = 0; w_ = 0;
  do
  :: x_ < NP && ((st[x_] == 1 && !er[x_] && es[x_] == 0 && !dc[x_] && mown[x_] != 0) || (st[x_] == 2 && !em[x_]) || st[x_] >= 3) -> w_ = w_ + (st[x_] == 1); x_++
  :: else -> break
  od;
  if
  :: x_ == NP ->
     printf("AT REST: %d wait, ready %d, members %d\n", w_, rdy, mset);
     assert(w_ < N);                                    /* n live members wait */
     x_ = 0;
     do
     :: x_ < NP ->
        assert(st[x_] != 2);                            /* an early comer waits for ever */
        assert(st[x_] != 1 || (rdy == 1 && mown[x_] != 0));   /* waits at an opened generation, or without a member */
        assert(st[x_] < 3 || mown[x_] == 0);            /* something left behind */
        x_++
     :: else -> break
     od
  :: else
  fi; x_ = 0; w_ = 0
}
inline success(me) {
  printf("P%d SUCCESS generation %d number %d\n", me, myinc, my);
  assert(nm[me]); assert(idx == ni[me]); assert(myinc > lastinc[me]); lastinc[me] = myinc
}
inline fail(me) { printf("P%d GIVES UP\n", me); assert(!nm[me]) }
inline opened(p) {
  printf("OPEN generation %d with %d (members %d)\n", inc, p, mset);
  rdy = 2; content = p; count(p & mset); assert(c_ == N); c_ = 0;
  x_ = 0; do :: x_ < NP -> if :: mown[x_] != 0 && HAS(p,mown[x_]) -> nm[x_] = 1; rank(p,mown[x_]); ni[x_] = c_ :: else fi; x_++ :: else -> break od; x_ = 0; c_ = 0;
  fireR();
  if
  :: sig == 0
#ifdef MHOLES
  :: sig != 0 -> sig = 2; fireS(1)
#else
  :: sig != 0 && p == ALL -> sig = 2; fireS(1)
#ifdef MSILENT
  :: sig != 0 && p != ALL
#else
  :: sig != 0 && p != ALL -> sig = 0; fireS(0)
#endif
#endif
  fi
}

/* symmetry: first steps in the order of the indices */
inline sym(me) { if :: started == me -> started++ :: else fi }

#define ADV \
  :: atomic { cr > 0 && started >= me -> cr--; goto crash } \
  :: atomic { ca > 0 && started >= me -> ca--; goto cancel }
#define ADVX ADV \
  :: atomic { xp > 0 && mown[me] != 0 -> xp--; goto expire }

proctype P(byte me) {
  byte rounds = R, my, myinc, tgt, tinc, idx; short pick; bit re, named;

again:
  atomic {
    my = 0; myinc = 0; tgt = 0; tinc = 0; idx = 0; pick = 0; re = 0; named = 0; st[me] = 0;
    if :: rounds == 0 -> goto fini :: else -> rounds-- fi;
    nm[me] = 0
  }
join:  /* multi[check(ready,0), create(member), setData(generation)] */
  if
  :: atomic { started >= me -> sym(me)
#if LO > 0
     if :: lo > 0 -> lo--; goto join :: skip fi;            /* lost, not applied */
#endif
     if
     :: !gex -> re = 0; tgt = 0; tinc = 0; goto create
#if !defined(MADMIT) && !defined(MADMITANY)
     :: gex && rdy == 2 -> 
        if :: re -> re = 0; tgt = 0; tinc = 0; goto ewait :: else -> goto elist fi
#endif
#if defined(MADMIT) || defined(MADMITANY)
     :: gex ->
#else
     :: gex && rdy == 1 ->
#endif
        re = 0; tgt = 0; tinc = 0;
        my = seq; seq++; mown[me] = my; mset = mset | BIT(my); myinc = inc; assert(seq <= MAXJ + 1);
        count(mset); printf("P%d joins generation %d as %d, %d there\n", me, inc, my, c_);
#if LO > 0
        if :: lo > 0 -> lo--; c_ = 0; goto resolve :: skip fi;   /* applied, reply lost */
#endif
#ifdef MNTH
        if :: c_ == N -> c_ = 0; goto list :: else -> c_ = 0; goto look fi
#elif defined(MCNTRDY)
        if :: c_ + 1 >= N -> c_ = 0; goto list :: else -> c_ = 0; goto look fi
#else
        if :: c_ >= N -> c_ = 0; goto list :: else -> c_ = 0; goto look fi
#endif
     fi }
  ADV
  fi;
resolve:  /* Sync, list: own member is there; what the list shows decides the duty */
#ifdef MLOSTJ
  goto look;
#endif
list:
  if
  :: atomic {
#ifdef MCNTRDY
     count(mset); c_++;
#else
     count(mset);
#endif
     if
     :: c_ >= N -> first(pick);
#ifdef MCNTRDY
        count(mset); if :: c_ == N-1 -> pick = mset :: else fi; c_ = 0;
#endif
        goto open
     :: else -> c_ = 0; goto look
     fi }
  ADVX
  fi;
open:  /* multi[check each picked member, setData(ready, content, 0)] */
  if
  :: atomic {
#if LO > 0
     if :: lo > 0 -> lo--; pick = 0; goto relook :: skip fi;    /* lost, not applied */
#endif
     if
     :: rdy == 2 -> pick = 0; goto look                          /* BadVersion */
#ifdef MNOCHK
     :: rdy == 1 ->
#else
     :: rdy == 1 && (pick & mset) != pick -> pick = 0;           /* NoNode */
#ifdef MNONODE
        goto look
#else
        goto list
#endif
     :: rdy == 1 && (pick & mset) == pick ->
#endif
        opened(pick); pick = 0;
#if LO > 0
        if :: lo > 0 -> lo--; goto relook :: skip fi;            /* applied, reply lost */
#endif
        if :: HAS(content,my) -> rank(content,my); idx = c_; c_ = 0; goto succ :: else -> goto excl fi
     fi }
  ADVX
  fi;
relook:  /* the opening's reply was lost: read ready; still empty: the duty stands */
  if
  :: atomic { rdy == 2 && HAS(content,my) -> rank(content,my); idx = c_; c_ = 0; goto succ }
  :: atomic { rdy == 2 && !HAS(content,my) -> goto excl }
#ifdef MLOSTO
  :: atomic { rdy == 1 -> goto look }
#else
  :: atomic { rdy == 1 -> goto list }
#endif
  ADVX
  fi;
look:  /* getChildrenW(signal) */
  if
  :: atomic {
     if
     :: ws[me]                          /* the session has one already */
     :: !ws[me] && sig == 0 -> goto lookr
     :: !ws[me] && sig != 0 -> ws[me] = 1; cf[me] = 1; wi[me] = inc; es[me] = 0
     fi;
#ifndef MANYROUND
     if :: wi[me] != myinc -> goto lookr :: else fi;
#endif
     if
     :: sig == 2 && ws[me] && cf[me] -> goto believe     /* the answer says so */
     :: else -> settle(me,1); goto endwait
     fi }
  ADVX
  fi;
lookr:  /* getW(ready) */
  if
  :: atomic {
     if :: rdy != 0 -> wr[me] = 1 :: else fi;
     if :: gex && inc == myinc && rdy == 1 -> settle(me,1); goto endwait :: else fi }
  :: atomic { !(gex && inc == myinc && rdy == 1) -> goto judge }
  ADVX
  fi;
judge:  /* ready was read, and it is not empty */
  atomic {
     if
     :: rdy == 2 && inc == myinc && HAS(content,my) -> rank(content,my); idx = c_; c_ = 0; goto succ
     :: rdy == 2 && inc == myinc && !HAS(content,my) ->
#ifdef MADMITANY
        goto succ
#else
        goto excl
#endif
     :: rdy == 1 && inc == myinc -> goto look
     :: else -> assert(mown[me] == 0); goto evicted      /* another round, or none */
     fi }
believe:  /* no request */
  atomic {
#ifdef MSURPLUS
     idx = my - 1; goto succ
#else
     if :: my <= N -> idx = my - 1; goto succ :: else -> goto excl fi
#endif
     }
endwait:
  if
  :: atomic { es[me] == 1 && !dc[me] -> es[me] = 0; st[me] = 0; goto believe }
  :: atomic { (es[me] == 2 || er[me]) && !dc[me] -> es[me] = 0; er[me] = 0; st[me] = 0; goto judge }
  :: atomic { sp > 0 && !dc[me] -> sp--; st[me] = 0; goto judge }
  :: atomic { mown[me] == 0 && !dc[me] -> st[me] = 0; goto evicted }       /* the watch on the own znode */
  :: atomic { ev > 0 && mown[me] != 0 -> ev--; printf("P%d is evicted\n", me); delM(me); goto endwait }
  :: atomic { sd > 0 && sig != 0 -> sd--; printf("the signal is deleted\n"); sig = 0; fireS(0); goto endwait }
  :: atomic { rc > 0 && !dc[me] -> rc--; printf("P%d is disconnected\n", me); dc[me] = 1; es[me] = 0; ms[me] = 0; cf[me] = 0;
     if :: wr[me] -> er[me] = 0 :: else fi; goto endwait }
  :: atomic { dc[me] -> printf("P%d is back\n", me); dc[me] = 0;
     if
     :: ws[me] && sig == 0 -> ws[me] = 0; es[me] = 2
     :: ws[me] && sig != 0 && ms[me] -> ws[me] = 0;
#ifdef MREARMED
        es[me] = 1
#else
        es[me] = 2
#endif
     :: else
     fi; ms[me] = 0;
     if :: !ws[me] && es[me] == 0 -> er[me] = 1 :: else -> settle(me,1) fi;
     goto endwait }
  ADVX
  fi;
evicted:  /* Sync, read ready; it is believed only if it is of the member's incarnation */
  atomic {
    if :: rdy == 2 && HAS(content,my) && inc == myinc -> rank(content,my); idx = c_; c_ = 0; success(me)
       :: else -> printf("P%d error: evicted\n", me) fi;
    goto again
  }
succ:  /* delete own member, return index */
  if
  :: atomic { success(me); delM(me);
#ifdef MLAST
     if :: mset == 0 -> goto ldel :: else fi;
#endif
     goto again }
  :: atomic { cr > 0 -> cr--; goto crash }
  fi;
#ifdef MLAST
ldel:
  if
  :: atomic { if :: gex && mset == 0 && rdy == 2 -> gone() :: else fi; goto again }
  :: atomic { cr > 0 -> cr--; goto crash }
  fi;
#endif
excl:  /* not in it: leave, come again */
  if
  :: atomic { assert(!nm[me]); printf("P%d is not in it\n", me); delM(me); my = 0; myinc = 0; goto join }
  :: atomic { cr > 0 -> cr--; goto crash }
  :: atomic { ca > 0 -> ca--; goto cancel }
  fi;
create:  /* multi[create(generation), create(ready)]; NodeExists is fine */
  if
  :: atomic { if :: !gex -> gex = 1; inc++; rdy = 1; content = 0; seq = 1; sig = 1; fireS(1); printf("P%d creates generation %d\n", me, inc) :: else fi; goto join }
  ADV
  fi;
elist:  /* early comer: list the old generation */
  if
  :: atomic {
     if
     :: !gex -> goto join
     :: gex && mset == 0 ->
#ifdef MLAST
        wr[me] = 1; settle(me,2); goto ewaitr
#else
        goto edel
#endif
     :: gex && mset != 0 -> last(mset,tgt); tinc = inc; goto earm
     fi }
  ADV
  fi;
#ifdef MLAST
ewaitr:
  if
  :: atomic { er[me] -> er[me] = 0; st[me] = 0; goto elist }
  ADV
  fi;
#endif
earm:  /* getW(last member) */
  if
  :: atomic {
     if
     :: gex && inc == tinc && HAS(mset,tgt) ->
        printf("P%d, early, watches %d of generation %d\n", me, tgt, inc);
        wm[me] = tgt; em[me] = 0; tgt = 0; tinc = 0;
        re = 1; goto join
     :: else -> tgt = 0; tinc = 0;
        goto join
     fi }
  ADV
  fi;
ewait:
  atomic { settle(me,2) }
endewait:
  if
  :: atomic { em[me] -> em[me] = 0; st[me] = 0; 
     goto join
     }
  :: atomic { sp > 0 -> sp--; st[me] = 0; goto elist }
  ADV
  fi;
edel:  /* multi[delete(ready), delete(generation)]; NotEmpty, NoNode are fine */
#ifdef MSPLIT
  if
  :: atomic { if :: gex && rdy != 0 -> rdy = 0; content = 0; fireR() :: else fi }
  ADV
  fi;
  if
  :: atomic { if :: gex && mset == 0 && rdy == 0 -> gex = 0 :: else fi; goto join }
  ADV
  fi;
#else
  if
  :: atomic {
     if :: gex && mset == 0 && rdy == 2 ->
        printf("P%d deletes generation %d\n", me, inc); gone() :: else fi; goto join }
  ADV
  fi;
#endif

cancel:
  atomic {
    sym(me); st[me] = 0; re = 0; tgt = 0; tinc = 0; pick = 0; dc[me] = 0;
#if UN > 0
    if
    :: un > 0 && mown[me] != 0 -> un--; printf("P%d returns undecided\n", me); goto undecided
    :: skip
    fi;
#endif
    if
    :: mown[me] == 0 && my == 0 -> fail(me); goto again
    :: mown[me] == 0 && my != 0 -> goto evicted
    :: mown[me] != 0 && rdy == 1 -> printf("P%d cancels, its member %d is deleted\n", me, my); delM(me); fail(me); goto again
    :: else -> goto cread
    fi
  }
cread:
  if
  :: atomic { rdy == 2 -> 
#ifdef MCANRET
     named = 0
#else
     named = HAS(content,my)
#endif
     }  /* BadVersion; own member holds the generation: ready is readable */
  :: atomic { cr > 0 -> cr--; goto crash }
  fi;
  if
  :: atomic { if :: named -> rank(content,my); idx = c_; c_ = 0; success(me) :: else -> fail(me) fi; delM(me); goto again }
  :: atomic { cr > 0 -> cr--; goto crash }
  fi;
#if UN > 0
undecided:
  atomic { delM(me); goto again }        /* the background, before the next Wait joins */
#endif
expire:
  atomic { printf("P%d session expires\n", me); delM(me); st[me] = 0; reset(me); pick = 0 }
  atomic {      /* new session, Sync, read ready */
    if :: rdy == 2 && HAS(content,my) && inc == myinc -> rank(content,my); idx = c_; c_ = 0; success(me)
       :: else -> printf("P%d error: session lost\n", me) fi;
    goto again
  }
crash:
  atomic { printf("P%d dies\n", me); sym(me); st[me] = 0; delM(me); reset(me); re = 0;
#ifdef REJOIN
    lastinc[me] = 0; rounds++; goto again     /* a new process does what the dead one had left */
#else
    my = 0; myinc = 0; tgt = 0; tinc = 0; pick = 0; named = 0; settle(me,4); goto enddead
#endif
  }
fini:
  atomic { settle(me,3) }
enddead:
  skip
}

init {
  byte i;
  atomic { i = 0; do :: i < NP -> run P(i); i++ :: else -> break od; i = 0 }
}
