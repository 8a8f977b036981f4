/* queue.pml: the queue on the ordering core (the line itself is line.pml's: here a consumer just is
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
 * Mutants: M_NORECEIPT M_NOCHECK M_OWNOP M_NOCLAIMWATCH M_SEALEDPUT M_ARMAFTER
 *          M_NACKNAME (claim bears no name of its own) M_QUIETSEAL (sealing changes no child of the old segment)
 *          M_NOEXCL (claim checks the item, but not that it is free) M_NOACKRECEIPT (with EVICT: an operator deletes a claim)
 *          M_ONLYCUR (only the last segment is watched) M_CLAIMLOST (lost claim reply: join again) M_NOSYNC
 *
 * -DTURN: the line is modeled, and with it who looks. The consumers are others; producers and items are the same.
 *
 * join     create a place; its predecessor P1 is known (guessed, or listed) and watched
 * arm      some time later, but in the end: list the line; P1 and P2, the two places ahead, are watched, one after the other
 * turn     P1's farewell: look, whatever else stands ahead. Any other event of the two: list the line again and arm.
 *          Nobody ahead in a listing: look. -DTWO: one ahead: look, too; -DTWO -DLOOKERS=n: up to n-1 ahead (without LAG). (A listing forgets events that came before it.)
 * look     as above; a look is for good: it ends with a claim, or with the place
 * claim    at any moment after the look (the grace of the second is not timed); says farewell, leaves the place
 *          -DBATCH: one or two items, in order, all or none    -DREJOIN: and it may make a place at the tail
 * ack      -DSERVE: the last one may make a place at the tail
 *
 * -DFREE   without a place: read the line's Stat, look without a watch; nobody in line and an item free: claim, with a
 *          check of the line's version; all else: join      -DTRY: or claim without a look at the line, else join
 * -DCHOICE a claim takes any free item that was listed, not the first (without -DBATCH)
 * Budgets: CRASH (the process comes back, or never)  FREEZE (stands for ever at any point, its session lives on)
 *          STOP (a consumer without a place stops)  CANCEL (a waiter deletes its place, without a farewell)
 *          NACK, PCRASH, PLOST, LAG with SWITCH as above. -DEXPIRE: the session of a frozen one expires, at any moment
 * In the end: if a live consumer waits, each item that no frozen one has claimed is delivered, unless the first two
 *          places are both frozen (-DSTRICT: even then).
 * -DORDERLY: the first joins come in the order of the consumers' numbers, which are arbitrary (fewer states, none lost)
 * Mutants with TURN: M_NOEXCL  M_BATCHTAKEN (the second item of a batch is not checked to be free)
 *          M_NOARM (P1 is listed at once, but P2 is never watched)  M_SECONDSLEEPS (the second watches no segment)
 *          M_NOVER (FREE without the check of the version: breaks nothing)  M_NORELIST (P2's event is not followed by
 *          a listing)  M_ARMBLIND (a place that has gone before it is watched is not noticed)
 *          M_NOFAR (with LOOKERS: the place that is LOOKERS ahead is not watched)
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
#ifndef FREEZE
#define FREEZE 0
#endif
#ifndef STOP
#define STOP 0
#endif
#ifndef CANCEL
#define CANCEL 0
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
#ifdef TURN
byte freeze = FREEZE, stop = STOP, cancel = CANCEL;
byte lp1[NC], lp2[NC];   /* the two places ahead, owner+1; 0: not known, or gone */
bit la1[NC], la2[NC];    /* watched */
#ifdef LOOKERS
byte lp3[NC]; bit la3[NC]; /* the place that is LOOKERS ahead */
#endif
byte lev[NC];            /* events: 1 P1's farewell, 2 any other */
bit fver[NC];            /* somebody has joined since the line's Stat was read */
byte held[NC];           /* items in hand */
bit frz[NC], gone[NC];   /* stands for ever; does not come back */
#ifdef LAG
byte pend1[NC], pend2[NC], vleft[NC]; /* what the follower does not know: the end of P1 and P2, and of the place it shows */
bit jd;                               /* and a join */
#endif
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
#ifdef TURN
  jd = 0;
  do :: g_ < NC ->
     if :: pend1[g_] -> if :: la1[g_] -> lev[g_] = lev[g_] | pend1[g_] :: else fi; lp1[g_] = 0; la1[g_] = 0; pend1[g_] = 0 :: else fi;
     if :: pend2[g_] -> if :: la2[g_] -> lev[g_] = lev[g_] | 2 :: else fi; lp2[g_] = 0; la2[g_] = 0; pend2[g_] = 0 :: else fi;
     vleft[g_] = 0; g_++
  :: else -> break od; g_ = 0
#endif
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
next:
  if :: k == PUTSOF(p) -> goto done :: else -> id = (p == 0 -> k : PUTS+(p-1)*PUTS1+k) fi;
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
ok:
  putok[id] = 1;
over:
  atomic { k++; goto next };
done:
  skip
}

#ifdef TURN
#ifdef LOOKERS
#define MORE
#else
#ifdef TWO
#define LOOKERS 2
#else
#define LOOKERS 1
#endif
#endif
/* the place of x is gone, k = 1 with a farewell, 2 without */
inline told(c, x, k) {
  if
  :: lp1[c] == x+1 ->
#ifdef LAG
     if :: srv[c] -> if :: !pend1[c] -> pend1[c] = k :: else fi
        :: else -> if :: la1[c] -> lev[c] = lev[c] | k :: else fi; lp1[c] = 0; la1[c] = 0 fi
#else
     if :: la1[c] -> lev[c] = lev[c] | k :: else fi; lp1[c] = 0; la1[c] = 0
#endif
  :: lp2[c] == x+1 ->
#ifdef LAG
     if :: srv[c] -> if :: !pend2[c] -> pend2[c] = 2 :: else fi
        :: else -> if :: la2[c] -> lev[c] = lev[c] | 2 :: else fi; lp2[c] = 0; la2[c] = 0 fi
#else
     if :: la2[c] -> lev[c] = lev[c] | 2 :: else fi; lp2[c] = 0; la2[c] = 0
#endif
#ifdef MORE
  :: lp3[c] == x+1 -> if :: la3[c] -> lev[c] = lev[c] | 2 :: else fi; lp3[c] = 0; la3[c] = 0
#endif
  :: else
  fi
}
inline forget(c) {
  lp1[c] = 0; lp2[c] = 0; la1[c] = 0; la2[c] = 0; lev[c] = 0;
#ifdef MORE
  lp3[c] = 0; la3[c] = 0;
#endif
#ifdef LAG
  pend1[c] = 0; pend2[c] = 0
#endif
}
inline quit(c, k) {
  if :: pos[c] ->
     f_ = 0; do :: f_ < NC -> if :: f_ != c -> told(f_, c, k) :: else fi; f_++ :: else -> break od; f_ = 0;
#ifdef LAG
     if :: vpos[c] && !vleft[c] -> vleft[c] = k :: else fi;
#endif
     leave(c)
  :: else fi;
  forget(c)
}
inline place(c) {      /* at the tail; the predecessor is known */
  enter(c); forget(c);
  f_ = 0;
  do :: f_ < NC ->
     if :: pos[c] > 1 && pos[f_] == pos[c]-1 -> lp1[c] = f_+1 :: else fi;
     fver[f_] = 1; f_++
  :: else -> break od; f_ = 0;
#ifdef LAG
  jd = 1
#endif
}
inline drop(c) {       /* the session ends */
  quit(c, 2); i = 0;
  do :: i < ni -> if :: HAS(clm,i) && co[i] == c -> unclaim(i) :: else fi;
        if :: got[i] == c+1 -> got[i] = 0 :: else fi; i++
     :: else -> break od;
  i = 0; n = 0; it = NONE; it2 = NONE; arm = 0; m = 0; held[c] = 0; w[c] = 0; ev[c] = 0; fver[c] = 0;
#ifdef LAG
  srv[c] = 0; need[c] = 0
#endif
}
#ifdef LAG
#define SWITCHTO(l) :: atomic { sw > 0 && !srv[me] && !need[me] -> sw--; srv[me] = 1; w[me] = 0; ev[me] = 1; forget(me); lev[me] = 2; printf("C%d moves to the follower\n", me); goto l }
#else
#define SWITCHTO(l)
#endif
#if CRASH > 0
#define CRASHOPT :: atomic { crash > 0 -> crash--; goto dying }
#else
#define CRASHOPT
#endif
#if FREEZE > 0
#define FREEZEOPT :: atomic { freeze > 0 -> freeze--; frz[me] = 1; SEEN(me); printf("C%d freezes at %d\n", me, pos[me]); goto endfrozen }
#else
#define FREEZEOPT
#endif
#if CANCEL > 0
#define CANCELOPT :: atomic { cancel > 0 -> cancel--; printf("C%d gives up its place %d\n", me, pos[me]); quit(me, 2); w[me] = 0; ev[me] = 0; it = NONE; it2 = NONE; n = 0; arm = 0; REPLY; goto hold }
#else
#define CANCELOPT
#endif
#define TAKEN(x) (!HAS(ex,x) || (EXCL && HAS(clm,x)))
#ifdef M_BATCHTAKEN
#define TAKEN2(x) (!HAS(ex,x))
#else
#define TAKEN2(x) TAKEN(x)
#endif
#ifdef M_NOVER
#define OTHERVERSION 0
#else
#define OTHERVERSION (m == 1 && fver[me])
#endif
#ifdef ORDERLY
bit seen[NC];
#define SEEN(c) seen[c] = 1
#define INORDER (me == 0 || seen[me-1])
#else
#define SEEN(c) skip
#define INORDER true
#endif
#define FAULTS CRASHOPT FREEZEOPT
proctype Consumer(byte me) {
  byte n, i, it = NONE, it2 = NONE, m; bit e, arm;
start:                                       /* without a place, with nothing in hand */
  if
#ifdef FREE
  :: atomic { true -> i = 0; e = 0;
     do :: i < NC -> if :: V(pos[i]) -> e = 1 :: else fi; i++ :: else -> break od; i = 0;
     RREPLY;
     if :: e -> e = 0; goto join
     :: else ->
        fver[me] = 0; m = 1;
#ifdef LAG
        if :: srv[me] -> fver[me] = jd :: else fi;
#endif
        goto look
     fi }
#else
  :: goto join
#endif
#ifdef TRY
  :: m = 2; goto look
#endif
#if STOP > 0
  :: atomic { stop > 0 -> stop--; gone[me] = 1; SEEN(me); printf("C%d stops\n", me); goto endgone }
#endif
  FAULTS
  fi;
join:
  if
  :: atomic { INORDER -> m = 0; fver[me] = 0; place(me); fver[me] = 0; SEEN(me); REPLY; printf("C%d joins at %d\n", me, pos[me]) }
  FAULTS
  fi;
guess:                                       /* P1 is known, nothing else is */
  arm = 0;
#ifdef M_NOARM
  goto list;
#endif
arm1:
  if
  :: atomic { true -> RREPLY;
     if
#ifndef M_ARMBLIND
     :: !lp1[me] -> goto list
#endif
     :: else -> la1[me] = 1; if :: arm -> goto arm2 :: else -> goto endwait fi
     fi }
  FAULTS
  SWITCHTO(list)
  fi;
list:
  if
  :: atomic { true -> forget(me); RREPLY; arm = 1;
     printf("C%d lists the line: %d\n", me, V(pos[me]));
     if
     :: V(pos[me]) <= LOOKERS -> arm = 0; goto look
     :: else -> i = 0;
        do :: i < NC ->
           if
           :: V(pos[i]) && V(pos[i]) == V(pos[me])-1 -> lp1[me] = i+1;
#ifdef LAG
              if :: srv[me] -> pend1[me] = vleft[i] :: else fi
#endif
           :: V(pos[i]) && V(pos[i]) == V(pos[me])-2 -> lp2[me] = i+1;
#ifdef LAG
              if :: srv[me] -> pend2[me] = (vleft[i] -> 2 : 0) :: else fi
#endif
#ifdef MORE
#ifndef M_NOFAR
           :: LOOKERS > 2 && V(pos[i]) && V(pos[me]) > LOOKERS && V(pos[i]) == V(pos[me])-LOOKERS -> lp3[me] = i+1
#endif
#endif
           :: else
           fi; i++
        :: else -> break od; i = 0; goto arm1
     fi }
  FAULTS
  SWITCHTO(list)
  fi;
arm2:
#ifndef M_NOARM
#ifdef TWO
  if
  :: atomic { true -> RREPLY;
     if
#ifndef M_ARMBLIND
     :: !lp2[me] -> arm = 0; goto list
#endif
     :: else -> la2[me] = 1;
#ifdef MORE
        if :: LOOKERS > 2 -> goto arm3 :: else -> goto endwait fi
#else
        goto endwait
#endif
     fi }
  FAULTS
  SWITCHTO(list)
  fi;
#ifdef MORE
arm3:
  if
  :: atomic { true -> RREPLY;
     if
#ifndef M_NOFAR
     :: !lp3[me] -> arm = 0; goto list
#endif
     :: else -> la3[me] = 1; goto endwait
     fi }
  FAULTS
  fi;
#endif
#endif
#endif
endwait:
  if
  :: atomic { lev[me] & 1 -> printf("C%d has the turn at %d\n", me, pos[me]); forget(me); arm = 0; goto look }
#ifdef M_NORELIST
  :: atomic { (lev[me] & 2) && !lp1[me] -> arm = 0; goto list }
#else
  :: atomic { lev[me] & 2 -> arm = 0; goto list }
#endif
  :: atomic { !arm -> goto list }
  FAULTS
  CANCELOPT
  SWITCHTO(list)
  fi;
look:
  n = NONE;
seg:
  if
  :: atomic { true ->
     if :: n == NONE -> ev[me] = 0; w[me] = 0; n = 0; do :: !HAS(V(segex),n) -> n++ :: else -> break od :: else fi;
     if :: !HAS(V(segex),n) -> SYNC; n = NONE; goto look :: else fi;
     if
     :: m -> skip
#ifdef M_SECONDSLEEPS
     :: !m && V(pos[me]) == 2 -> skip
#endif
     :: else -> w[me] = w[me] | BIT(n)
     fi;
     RREPLY; it = NONE; it2 = NONE; i = 0; e = 1;
     do
     :: i < ni ->
        if
        :: HAS(V(ex),i) && sg[i] == n -> e = 0;
           if
           :: !HAS(V(clm),i) && it == NONE -> it = i
#ifdef CHOICE
           :: !HAS(V(clm),i) && it != NONE -> it = i
#endif
#ifdef BATCH
           :: !HAS(V(clm),i) && it != NONE && it2 == NONE -> it2 = i
#endif
           :: else
           fi
        :: else fi; i++
     :: else -> break
     od; i = 0;
     printf("C%d lists %d: candidates %d %d sealed %d\n", me, n, it, it2, HAS(V(sealed),n));
     if
     :: it != NONE -> e = 0; n = 0; if :: it2 != NONE -> if :: it2 = NONE :: skip fi :: else fi; goto claim
     :: it == NONE && HAS(V(sealed),n) ->
        if :: e && HAS(segex,n) -> segex = segex & ~BIT(n); TXN; REPLY; w[me] = w[me] & ~BIT(n); printf("C%d deletes segment %d\n", me, n) :: else fi;
        e = 0; n++; do :: !HAS(V(segex),n) -> n++ :: else -> break od; goto seg
     :: else -> e = 0; n = 0; if :: m -> m = 0; fver[me] = 0; goto join :: else -> goto endsleep fi
     fi }
  FAULTS
  SWITCHTO(seg)
  fi;
endsleep:
  if
  :: atomic { ev[me] -> n = 0; goto look }
  FAULTS
  CANCELOPT
  SWITCHTO(endsleep)
  fi;
claim:
  if
  :: atomic { true ->
     if
     :: TAKEN(it) || (it2 != NONE && TAKEN2(it2)) || OTHERVERSION -> printf("C%d: claim of %d %d fails\n", me, it, it2); it = NONE; it2 = NONE; SYNC;
        if :: m -> m = 0; fver[me] = 0; goto join :: else -> goto look fi
     :: else ->
        printf("C%d claims %d %d, mode %d, place %d\n", me, it, it2, m, pos[me]);
        do
        :: assert(HAS(ex,it)); assert(got[it] == 0);
           got[it] = me+1; co[it] = me; clm = clm | BIT(it); att[it]++; held[me] = held[me] | BIT(it); fire(sg[it]);
#ifndef CHOICE
           if
           :: att[it] == 1 -> i = 0; do :: i < it -> assert(att[i] > 0); i++ :: else -> break od; i = 0
           :: else fi;
#endif
           it = it2; it2 = NONE;
           if :: it == NONE -> break :: else fi
        od;
        quit(me, 1); m = 0; fver[me] = 0; TXN;
#ifdef REJOIN
        if :: place(me); fver[me] = 0; printf("C%d joins again at %d\n", me, pos[me]) :: skip fi;
#endif
        REPLY; w[me] = 0; ev[me] = 0; goto hold
     fi }
#ifdef TWO
  :: atomic { !m && ev[me] -> it = NONE; it2 = NONE; goto look }
#endif
  FAULTS
  CANCELOPT
  SWITCHTO(claim)
  fi;
hold:
  if
  :: atomic { pos[me] -> goto guess }
  :: atomic { !pos[me] && !held[me] -> goto start }
  FAULTS
  SWITCHTO(hold)
  fi;
#if CRASH > 0
dying:
  atomic {
    printf("C%d dies\n", me); drop(me);
    if :: goto start :: gone[me] = 1; SEEN(me); goto endgone fi
  };
#endif
#if FREEZE > 0
endfrozen:
#ifdef EXPIRE
  atomic { true -> printf("C%d expires\n", me); drop(me); gone[me] = 1 };
#else
  false;
#endif
#endif
endgone:
  skip
}
proctype Handler(byte me) {
  byte i;
endh:
  do
  :: atomic { held[me] && !frz[me] ->
     i = 0; do :: HAS(held[me],i) -> break :: i < NI-1 && (held[me] >> (i+1)) -> i++ od;
     held[me] = held[me] & ~BIT(i); assert(got[i] == me+1 && HAS(clm,i) && co[i] == me); got[i] = 0;
     if
     :: att[i] > MAXATT -> ex = ex & ~BIT(i); unclaim(i); dead[i]++; printf("C%d gives %d up\n", me, i)
     :: att[i] <= MAXATT -> ex = ex & ~BIT(i); unclaim(i); eff[i]++; printf("C%d acks %d\n", me, i);
#ifdef SERVE
        if :: !held[me] && !pos[me] -> place(me); fver[me] = 0; printf("C%d joins with its ack at %d\n", me, pos[me]) :: skip fi
#endif
     :: att[i] <= MAXATT && nack > 0 -> nack--; unclaim(i); printf("C%d nacks %d\n", me, i)
     fi;
     REPLY; i = 0 }
  od
}
#else
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
#endif
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
#ifdef TURN
  do :: i = 0; j = 0; g_ = 0; h_ = 0;       /* live ones that wait; frozen ones, and those of the first two */
     do :: i < NC ->
        if
        :: frz[i] && !gone[i] -> h_++; if :: pos[i] && pos[i] <= LOOKERS -> j++ :: else fi
        :: !frz[i] && !gone[i] -> assert(pos[i] > 0); g_++
        :: else
        fi; i++
     :: else -> break od;
     if :: g_ == 0 -> i = 0; j = 0; h_ = 0; goto over :: else -> g_ = 0 fi;
#ifndef STRICT
     if :: j == LOOKERS -> i = 0; j = 0; h_ = 0; goto over :: else fi;
#endif
     j = 0; i = 0;
     do :: i < ni -> assert(eff[i] + dead[i] == 1 || (HAS(clm,i) && frz[co[i]] && eff[i] + dead[i] == 0)); i++ :: else -> break od;
     if :: h_ -> h_ = 0; i = 0; goto over :: else -> break fi
  od;
#endif
  i = 0;
  do :: i < ni -> assert(eff[i] + dead[i] == 1); i++ :: else -> break od;
  assert(ex == 0); assert(clm == 0);
  /* one open segment, and at most sealed empty ones that the next look deletes */
  i = 0; j = 0; do :: i < NSEG -> if :: HAS(segex,i) && !HAS(sealed,i) -> j++ :: else fi; i++ :: else -> break od;
  assert(j == 1); 
#ifndef NOSEG
  i = 0; do :: i < NSEG -> assert(!(HAS(segex,i) && HAS(sealed,i))); i++ :: else -> break od;
#endif
#ifdef TURN
  i = 0
  };
over: skip
#else
  i = 0; do :: i < NC -> assert(pos[i] > 0); i++ :: else -> break od
  }
#endif
}
init {
  byte i;
  atomic {
    segex = 1; i = 0; do :: i < NI -> co[i] = NONE; i++ :: else -> break od;
#ifdef LAG
    vsegex = 1;
#endif
    i = 0; do :: i < NC -> run Consumer(i); i++ :: else -> break od;
#ifdef TURN
    i = 0; do :: i < NC -> run Handler(i); i++ :: else -> break od;
#endif
    i = 0; do :: i < NP -> run Producer(i); i++ :: else -> break od; i = 0
  }
}
