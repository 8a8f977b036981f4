/* queue-puts.pml: the queue of queue.pml, before its turns, with attempts that a put sends together. On the ordering core (the line itself is line.pml's: here a consumer just is
 * first when nobody stands before it; the event that tells it may come as late as it likes).
 *
 *   q/s/<n>              segment; data version 0 open, 1 sealed
 *   q/s/<n>/<id><seq>    item, persistent
 *   q/s/<n>/<id><seq>/c  claim, ephemeral, excludes (NodeExists), checks the item (NoNode), counts (cversion)
 *   q/s/<n>/<id><seq>.<u> claim's flag, ephemeral, unique name: seen in the listing, names the grant
 *   q/puts/<slot>        receipt, ephemeral, one per put in flight and session
 *
 * put      multi[ receipt; check(s/n,0); create item ]                 the one that fills it: setData(s/n,0) instead of
 *          check, and create s/<n+1> at the end (its own item still goes into n: so that a child event tells)
 * look     from the oldest segment on: list WITH watch; first item without flag: claim; none and sealed: next; else sleep
 * claim    multi[ create flag; create item/c; setData(place); delete(place) ]
 * ack      multi[ delete flag; delete c; delete item; ops...; (Serve: create place) ]      nack: the first two
 *
 * -D: NC NP PUTS  CRASH PCRASH (producer's session ends, reply in doubt) PLOST ALOST NACK OWNOP budgets
 *     LAG (one follower, SWITCH budget of moves to it)  SERVE  MAXATT  MIX (any put may seal)
 *     WIN (a producer sends attempts for so many segments together; any put may seal)
 * Mutants: M_WINRECEIPT (with WIN: only the first attempt looks at the receipt) M_NORECEIPT M_NOCHECK M_OWNOP M_NOCLAIMWATCH M_SEALEDPUT M_ARMAFTER
 *          M_NACKNAME (claim bears no name of its own) M_QUIETSEAL (sealing changes no child of the old segment)
 *          M_NOEXCL (claim checks the item, but not that it is free) M_NOACKRECEIPT (with EVICT: an operator deletes a claim)
 *          M_ONLYCUR (only the last segment is watched) M_CLAIMLOST (lost claim reply: join again) M_NOSYNC
 */
#ifndef NC
#define NC 2
#endif
#ifndef NP
#define NP 2
#endif
#ifndef PUTS
#define PUTS 2
#endif
#ifndef CRASH
#define CRASH 0
#endif
#ifndef PCRASH
#define PCRASH 0
#endif
#ifndef PLOST
#define PLOST 0
#endif
#ifndef ALOST
#define ALOST 0
#endif
#ifndef NACK
#define NACK 0
#endif
#ifndef OWNOP
#define OWNOP 0
#endif
#ifndef SWITCH
#define SWITCH 0
#endif
#ifndef EVICT
#define EVICT 0
#endif
#ifndef MAXATT
#define MAXATT 9
#endif
#ifndef PUTS1
#define PUTS1 PUTS
#endif
#define PUTSOF(p) ((p) == 0 -> PUTS : PUTS1)
#define NIDS (PUTS+(NP-1)*PUTS1)
#define NI (NIDS+PLOST)
#define NSEG (NI+1)
#define NONE 15
#define BIT(p) (1<<(p))
#define HAS(m,p) (((m)>>(p))&1)

/* the leader's state */
byte ni;                 /* items ever committed; index = order of commit */
short ex, clm;           /* item exists; item is claimed */
byte sg[NI], att[NI], co[NI], idof[NI];
short segex, sealed;
byte pos[NC];            /* place in the line, 0 none, 1 first */
byte rc[NP];             /* receipt: id+1 of the last put */
/* clients */
short w[NC]; bit ev[NC];
bit putok[NIDS], unsure[NIDS];
byte eff[NI], dead[NI];  /* ghosts: acks done, dead letters */
byte got[NI];            /* ghost: who believes it holds it, +1 */
byte crash = CRASH, pcrash = PCRASH, plost = PLOST, alost = ALOST, nack = NACK, ownop = OWNOP, sw = SWITCH;
#if EVICT > 0
byte eby[NI]; bit arc[NC];   /* ghost: who acked; receipt of an ack, applied or not */
#endif
#ifdef LAG
short vex, vclm, vsegex, vsealed; byte vpos[NC]; bit srv[NC], need[NC], dirty; short chg; /* segments whose children changed since the follower last caught up */
#define V(a) (srv[me] -> v##a : a)
#define TXN dirty = 1
#define REPLY if :: srv[me] -> apply() :: else -> need[me] = dirty fi
#define RREPLY if :: srv[me] -> skip :: else -> need[me] = dirty fi
#define ONLEADER(c) (!srv[c])
#define SWITCHOPT :: atomic { sw > 0 && !srv[me] && !need[me] -> sw--; srv[me] = 1; w[me] = 0; ev[me] = 1; printf("C%d moves to the follower\n", me) }
#define SYNC if :: srv[me] -> apply() :: else fi
#else
#define V(a) (a)
#define TXN skip
#define REPLY skip
#define RREPLY skip
#define ONLEADER(c) 1
#define SYNC skip
#define SWITCHOPT
#endif
#ifdef M_NOEXCL
#define EXCL 0
#else
#define EXCL 1
#endif
byte f_, g_, h_;

inline fire(n) {
#ifdef LAG
  chg = chg | BIT(n);
#endif
  f_ = 0;
  do :: f_ < NC -> if :: HAS(w[f_],n) && ONLEADER(f_) -> w[f_] = w[f_] & ~BIT(n); ev[f_] = 1 :: else fi; f_++ :: else -> break od;
  f_ = 0
}
inline apply() {       /* the follower catches up, and fires what it must */
#ifdef LAG
  g_ = 0;
  do :: g_ < NSEG ->
     if
     :: HAS(chg, g_) ->
        h_ = 0;
        do :: h_ < NC -> if :: HAS(w[h_],g_) && srv[h_] -> w[h_] = w[h_] & ~BIT(g_); ev[h_] = 1 :: else fi; h_++ :: else -> break od;
        h_ = 0
     :: else fi; g_++
  :: else -> break od; chg = 0;
  vex = ex; vclm = clm; vsegex = segex; vsealed = sealed; dirty = 0;
  g_ = 0; do :: g_ < NC -> vpos[g_] = pos[g_]; need[g_] = 0; g_++ :: else -> break od; g_ = 0
#else
  skip
#endif
}
inline enter(c) {
  g_ = 0; h_ = 1;
  do :: g_ < NC -> if :: pos[g_] -> h_++ :: else fi; g_++ :: else -> break od;
  pos[c] = h_; g_ = 0; h_ = 0; TXN
}
inline leave(c) {
  if :: pos[c] ->
     g_ = 0; do :: g_ < NC -> if :: pos[g_] > pos[c] -> pos[g_]-- :: else fi; g_++ :: else -> break od;
     pos[c] = 0; g_ = 0; TXN
  :: else fi
}
inline unclaim(i) {
  co[i] = NONE; clm = clm & ~BIT(i); TXN;
#ifndef M_NOCLAIMWATCH
  fire(sg[i])
#endif
}

proctype Producer(byte p) {
  byte k, cur, id, i; bit saw, seal, lost;
#ifdef WIN
  byte j, n;
#endif
next:
  if :: k == PUTSOF(p) -> goto done :: else -> id = (p == 0 -> k : PUTS+(p-1)*PUTS1+k) fi;
#ifdef WIN
/* Attempts for WIN segments in a row, sent together under one receipt: the servers carry out one after the
 * other, with whatever others do in between, and the replies come at the end, or not at all. */
send:
  atomic { j = 0; lost = 0; goto attempt };
attempt:
  atomic {
    if
    :: j == WIN -> goto replies
    :: else ->
       n = cur+j;
       if
#ifdef M_WINRECEIPT
       :: rc[p] == id+1 && j == 0 -> skip
#else
       :: rc[p] == id+1 -> skip               /* BadVersion at the receipt */
#endif
       :: else ->
          if
          :: n >= NSEG || !HAS(segex,n) || HAS(sealed,n) -> skip   /* NoNode, BadVersion at the segment */
          :: else ->
             if :: seal = 0 :: n+2 < NSEG -> seal = 1 fi;
             assert(ni < NI);
             i = ni; ni++; idof[i] = id; ex = ex | BIT(i); co[i] = NONE; TXN; sg[i] = n;
             if :: seal -> sealed = sealed | BIT(n); segex = segex | BIT(n+1) :: else fi;
             printf("P%d puts id %d as item %d in %d seal %d, attempt %d\n", p, id, i, sg[i], seal, j);
             rc[p] = id+1; lost = 1; fire(sg[i]); i = 0; seal = 0
          fi
       fi;
       n = 0; j++; goto attempt
    fi
  }
replies:
  atomic {
    j = 0;
    if
    :: plost > 0 -> plost--; saw = 1; printf("P%d: replies lost\n", p); goto send     /* saw: sent again */
    :: pcrash > 0 -> pcrash--; rc[p] = 0; unsure[id] = 1; saw = 0; lost = 0; goto over
    :: lost -> saw = 0; lost = 0; goto ok
    :: !lost && saw && rc[p] == id+1 -> saw = 0; goto ok
    :: !lost && !(saw && rc[p] == id+1) ->
       i = 0; cur = 0; do :: i < NSEG -> if :: HAS(segex,i) -> cur = i :: else fi; i++ :: else -> break od; i = 0; goto send
    fi
  }
#else
send:
  atomic {
    if
#ifndef M_NORECEIPT
    :: rc[p] == id+1 -> printf("P%d finds its receipt\n", p); lost = 0; goto ok
#endif
    :: else ->
       if
       :: !HAS(segex,cur) -> i = 0; cur = 0; do :: i < NSEG -> if :: HAS(segex,i) -> cur = i :: else fi; i++ :: else -> break od; i = 0; saw = 0; goto send
#ifndef M_SEALEDPUT
       :: HAS(segex,cur) && HAS(sealed,cur) -> cur++; saw = 0; goto send
#endif
       :: else ->
#ifdef MIX
          if :: seal = 0 :: cur+2 < NSEG -> seal = 1 fi;
#else
          seal = saw;
#endif
          if :: HAS(sealed,cur) -> seal = 0 :: else fi;   /* only M_SEALEDPUT */
          assert(ni < NI);
          i = ni; ni++; idof[i] = id; ex = ex | BIT(i); co[i] = NONE; TXN;
          sg[i] = cur;
          if
          :: seal -> sealed = sealed | BIT(cur); segex = segex | BIT(cur+1);
#ifdef M_QUIETSEAL
             sg[i] = cur+1;
#endif
          :: else fi;
          printf("P%d puts id %d as item %d in %d seal %d\n", p, id, i, sg[i], seal);
          rc[p] = id+1; fire(sg[i]); i = 0;
          if :: seal -> cur++; saw = 0 :: else -> saw = 1 fi; seal = 0;
          if
          :: goto ok
          :: plost > 0 -> plost--; saw = 0; printf("P%d: reply lost\n", p); goto doubt
          :: pcrash > 0 -> pcrash--; rc[p] = 0; unsure[id] = 1; saw = 0; printf("P%d: session over, in doubt\n", p); goto over
          fi
       fi
    fi
  }
doubt:
  atomic {
#ifdef M_NORECEIPT
    i = 0; lost = 1; do :: i < ni -> if :: HAS(ex,i) && idof[i] == id -> lost = 0 :: else fi; i++ :: else -> break od; i = 0;
    if :: lost -> lost = 0; printf("P%d finds nothing, puts again\n", p); goto send :: else -> goto ok fi
#else
    goto send
#endif
  }
#endif
ok:
  putok[id] = 1;
over:
  atomic { k++; goto next };
done:
  skip
}

#define CRASHOPT :: atomic { crash > 0 -> crash--; goto dying }
proctype Consumer(byte me) {
  byte n, i, it = NONE, st; bit resent, e;
join:
  atomic { enter(me); REPLY; printf("C%d joins at %d\n", me, pos[me]) }
endwait:
  do
  :: V(pos[me]) == 1 -> break
  CRASHOPT
  SWITCHOPT
  od;
look:
  n = NONE;
seg:
  if
  :: atomic { true ->
     if :: n == NONE -> ev[me] = 0; w[me] = 0; n = 0; do :: !HAS(V(segex),n) -> n++ :: else -> break od :: else fi;
     if :: !HAS(V(segex),n) -> SYNC; n = NONE; goto look :: else fi;   /* NoNode: sync, begin again */
#ifndef M_ARMAFTER
     w[me] = w[me] | BIT(n);
#endif
     RREPLY; it = NONE; i = 0; e = 1;
     do
     :: i < ni ->
        if
        :: HAS(V(ex),i) && sg[i] == n -> e = 0;
           if :: !HAS(V(clm),i) && it == NONE -> it = i :: else fi
        :: else fi; i++
     :: else -> break
     od; i = 0;
     printf("C%d lists %d: candidate %d sealed %d\n", me, n, it, HAS(V(sealed),n));
     if
     :: it != NONE -> e = 0; n = 0; goto claim
     :: it == NONE && HAS(V(sealed),n) ->
        if :: e && HAS(segex,n) -> segex = segex & ~BIT(n); TXN; REPLY; w[me] = w[me] & ~BIT(n); printf("C%d deletes segment %d\n", me, n) :: else fi; /* stable: sealed and empty */
#ifdef M_ONLYCUR
        w[me] = 0;
#endif
        e = 0; n++; do :: !HAS(V(segex),n) -> n++ :: else -> break od; goto seg
     :: else -> e = 0; n = 0; goto sleep
     fi }
  CRASHOPT
  SWITCHOPT; goto seg
  fi;
sleep:
#ifdef M_ARMAFTER
  atomic { w[me] = segex };
#endif
endsleep:
  do
  :: atomic { ev[me] -> n = 0; goto look }
  CRASHOPT
  SWITCHOPT
  od;
claim:
  if
  :: atomic { true ->
     n = 0;
     if
#ifndef M_NOCHECK
     :: !HAS(ex,it) || (EXCL && HAS(clm,it)) -> printf("C%d: claim of %d fails\n", me, it); it = NONE;
#ifndef M_NOSYNC
        SYNC;
#endif
        goto look
#else
     :: HAS(ex,it) && HAS(clm,it) -> it = NONE; SYNC; goto look
#endif
     :: else ->
        printf("C%d claims %d\n", me, it);
        co[it] = me; clm = clm | BIT(it); att[it]++; leave(me); TXN; fire(sg[it]);
        /* order of first delivery */
        if
        :: att[it] == 1 -> i = 0; do :: i < it -> assert(att[i] > 0); i++ :: else -> break od; i = 0
        :: else fi;
        if
        :: REPLY
#ifdef M_CLAIMLOST
        :: alost > 0 -> alost--; it = NONE; w[me] = 0; goto join
#endif
        fi
     fi;
     assert(HAS(ex,it)); assert(got[it] == 0); got[it] = me+1; w[me] = 0; ev[me] = 0; resent = 0;
    if
    :: att[it] > MAXATT -> st = 2
    :: else ->
       if :: st = 0 :: nack > 0 -> nack--; st = 1 :: ownop > 0 -> ownop--; st = 3 fi
    fi }
  CRASHOPT
  SWITCHOPT; goto claim
  fi;
  /* the handler runs: st 0 ack, 1 nack, 2 dead letter, 3 ack whose own op will answer NoNode */
send:
  if
#if EVICT > 0
  :: atomic { alost > 0 && st == 0 -> alost--; resent = 1; goto send }   /* request lost before it was applied */
#endif
  :: atomic { true ->
     if
     :: st == 3 -> printf("C%d: own op of ack of %d fails\n", me, it);
#ifdef M_OWNOP
        got[it] = 0; it = NONE; st = 0; goto join      /* NoNode: taken for success */
#else
        st = 1; resent = 0; goto send
#endif
     :: st == 1 ->
        if
#ifdef M_NACKNAME
        :: HAS(clm,it) -> 
#else
        :: HAS(clm,it) && co[it] == me ->
#endif
           printf("C%d nacks %d (claim of %d)\n", me, it, co[it]); got[it] = 0; unclaim(it)
#if EVICT > 0
        :: else -> skip
#else
        :: else -> assert(resent)
#endif
        fi
     :: else ->
        if
        :: HAS(clm,it) && co[it] == me ->
#if EVICT > 0
           eby[it] = me+1; arc[me] = 1;
#endif
           printf("C%d acks %d (%d)\n", me, it, st); got[it] = 0;
           ex = ex & ~BIT(it); unclaim(it);
#ifdef M_NOCLAIMWATCH
           fire(sg[it]);
#endif
           if :: st == 2 -> dead[it]++ :: else -> eff[it]++ fi;
#ifdef SERVE
           enter(me)
#endif
#if EVICT > 0
        :: else ->                                /* NoNode at the flag: acked by the send before, or evicted */
           if
#ifndef M_NOACKRECEIPT
           :: resent && !arc[me] -> skip           /* no receipt: ErrLost, nothing was done */
#endif
           :: else -> if :: resent -> assert(eby[it] == me+1) :: else fi   /* told: success */
           fi
#else
        :: else -> assert(resent)
#endif
        fi
     fi;
     if
     :: REPLY; it = NONE; n = st; st = 0; resent = 0;
#if EVICT > 0
        arc[me] = 0;
#endif
#ifdef SERVE
        if :: n != 1 -> n = 0; goto endwait :: else -> n = 0 fi;
#endif
        n = 0; goto join
     :: alost > 0 -> alost--; resent = 1; printf("C%d: reply lost\n", me); goto send
     fi }
  CRASHOPT
  fi;
dying:
  atomic {
    printf("C%d dies\n", me);
    leave(me); i = 0;
    do :: i < ni -> if :: HAS(clm,i) && co[i] == me -> unclaim(i) :: else fi;
          if :: got[i] == me+1 -> got[i] = 0 :: else fi; i++
       :: else -> break od;
    i = 0; n = 0; it = NONE; st = 0; resent = 0; w[me] = 0; ev[me] = 0;
#ifdef LAG
    srv[me] = 0; need[me] = 0;
#endif
    goto join
  }
}
#ifdef LAG
active proctype Follower() {
endf: do :: atomic { dirty -> apply() } od
}
#endif
#if EVICT > 0
active proctype Operator() {      /* deletes a claim: flag and c */
  byte v = EVICT, i;
  do
  :: atomic { v > 0 && clm != 0 -> v--; i = 0; do :: !HAS(clm,i) -> i++ :: else -> break od; got[i] = 0; unclaim(i); i = 0 }
  :: break
  od
}
#endif
active proctype Monitor() {
  byte i, j;
  atomic {
  timeout ->
  i = 0;
  do :: i < NIDS ->
     j = 0; g_ = 0;
     do :: j < ni -> if :: idof[j] == i -> g_++ :: else fi; j++ :: else -> break od;
     assert(g_ <= 1); assert(putok[i] || unsure[i]); assert(!putok[i] || g_ == 1); g_ = 0;
     i++
  :: else -> break od;
  i = 0;
  do :: i < ni -> assert(eff[i] + dead[i] == 1); i++ :: else -> break od;
  assert(ex == 0); assert(clm == 0);
  /* one open segment, and at most sealed empty ones that the next look deletes */
  i = 0; j = 0; do :: i < NSEG -> if :: HAS(segex,i) && !HAS(sealed,i) -> j++ :: else fi; i++ :: else -> break od;
  assert(j == 1); 
#ifndef NOSEG
  i = 0; do :: i < NSEG -> assert(!(HAS(segex,i) && HAS(sealed,i))); i++ :: else -> break od;
#endif
  i = 0; do :: i < NC -> assert(pos[i] > 0); i++ :: else -> break od
  }
}
init {
  byte i;
  atomic {
    segex = 1; i = 0; do :: i < NI -> co[i] = NONE; i++ :: else -> break od;
#ifdef LAG
    vsegex = 1;
#endif
    i = 0; do :: i < NC -> run Consumer(i); i++ :: else -> break od;
    i = 0; do :: i < NP -> run Producer(i); i++ :: else -> break od; i = 0
  }
}
