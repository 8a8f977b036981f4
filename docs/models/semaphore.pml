/* semaphore.pml: slots that are taken in turn, or at once where nobody waits.
 *
 * Server: n slots at most, a line of places (ephemeral sequential children) with the
 * version of its data, which every join and every taking without a place raises; one
 * child watch on the slots for each client, one-shot watches on places, for each client
 * an ordered queue of events. NC clients take slots ROUNDS times: client 0 takes W0 at
 * once, the others W1. Each either looks (the line, then the slots) and takes what is
 * free by the version that it has seen, or takes by what it remembers of its last time,
 * or joins the line. The first in line looks, with a watch, and takes at its turn, in the
 * transaction that deletes its place.
 *
 * Budgets of the adversary: EXP sessions expire, EVI places are deleted, LOST replies to
 * takings and to releases are lost, REMAKE times the empty line is deleted and made again,
 * RES times the number of slots changes between N-1 and N (N: 2 or 3). CANCEL: waiters may give up.
 *
 * Mutants, each of which must break:
 *   NOCHECK     slots are taken at once whatever the line's version (somebody is overtaken)
 *   SLOTSFIRST  the slots are read before the line (a slot in two hands)
 *   CHECKFIRST  the check precedes the creates: sent again, it tells nothing (LOST: slots
 *               that nobody knows)
 *   LATEWATCH   the first in line looks and then sets its watch (a wake-up is lost)
 *   ANYLINE     nobody compares the line with the one seen (REMAKE: somebody is overtaken)
 *   FIXED       slots' names are their numbers (LOST: a release that is sent again deletes
 *               the next holder's)
 *   NOSIZE      takings do not check the number of slots (RES: more are held than there are)
 */
#ifndef NC
#define NC 3
#endif
#ifndef N
#define N 2
#endif
#ifndef W0
#define W0 2
#endif
#ifndef W1
#define W1 1
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
#ifndef LOST
#define LOST 0
#endif
#ifndef REMAKE
#define REMAKE 0
#endif
#ifndef RES
#define RES 0
#endif
#define MAXP (NC*ROUNDS+EXP+EVI+REMAKE)
#define NONE 31
#define BIT(p) (1<<(p))
#define HAS(m,p) (((m)>>(p))&1)

/* events */
#define DEL 1    /* a watched place was deleted */
#define SIG 2    /* and it was first, and has entered */
#define CHILD 3  /* the slots have changed, or their number */

/* server */
byte n = N, sizever;            /* number of slots, version of the path */
byte ver, inc;                  /* version of the line's data; which line it is */
byte front = NONE, nxt, waiting;
bit alive[MAXP]; byte owner[MAXP];
byte at[NC];                     /* each client's slots, as bits */
int w[NC];                      /* watches on places */
bit cw[NC];                     /* child watches */
chan q[NC] = [MAXP+6] of { byte, byte };
byte lost = LOST;

/* clients */
byte my[NC];                    /* place */
byte mine[NC];                  /* slots held, as bits */
bit holds[NC], expired[NC];
bit met[NC];                    /* somebody else waited when its slots were taken */
bit more[NC];                   /* more slots were taken then than there are */
byte fin;

byte f_, m_, k_, free_, got_;   /* scratch */

#define WEIGHT(c) ((c) == 0 -> W0 : W1)
#define ones(m) (HAS(m,0)+HAS(m,1)+HAS(m,2))

inline children() {
  f_ = 0;
  do
  :: f_ < NC -> if :: cw[f_] -> cw[f_] = 0; q[f_]!CHILD,0 :: else fi; f_++
  :: else -> break
  od; f_ = 0
}
inline mark() {
  m_ = 0; do :: m_ < MAXP && !alive[m_] -> m_++ :: else -> break od;
  if :: m_ < MAXP -> front = m_ :: else -> front = NONE fi; m_ = 0
}
inline del(p,t) {
  if
  :: alive[p] ->
     alive[p] = 0; waiting--; mark(); f_ = 0;
     do
     :: f_ < NC -> if :: HAS(w[f_],p) -> w[f_] = w[f_] & ~BIT(p); q[f_]!t,p :: else fi; f_++
     :: else -> break
     od; f_ = 0
  :: else
  fi
}
/* frees the slots of a client */
inline drop(c) {
  if :: at[c] != 0 -> at[c] = 0; children() :: else fi
}
inline all(to) {
  to = 0; k_ = 0;
  do :: k_ < NC -> to = to | at[k_]; k_++ :: else -> break od; k_ = 0
}
/* counts what is free, where seen are the slots taken */
inline count(seen) {
  free_ = 0; m_ = 0; k_ = 0;
  do
  :: k_ < N -> if :: HAS(seen,k_) -> m_++ :: else fi; k_++
  :: else -> break
  od;
  if :: m_ < vn -> free_ = vn-m_ :: else fi; m_ = 0; k_ = 0
}
/* takes the slots: the lowest ones that are not in seen */
inline take(c, seen) {
  got_ = 0; k_ = 0; mine[c] = 0;
  do
  :: k_ < N && got_ < WEIGHT(c) ->
     if
     :: !HAS(seen,k_) -> mine[c] = mine[c] | BIT(k_); got_++
     :: HAS(seen,k_) -> skip
     fi; k_++
  :: else -> break
  od;
  assert(got_ == WEIGHT(c));
  got_ = 0; k_ = 0;
  at[c] = mine[c]; all(m_);
  more[c] = (ones(m_) > n); m_ = 0; children()
}
inline looks() { all(seen) }
/* nobody else holds one of these slots, nobody was overtaken, and there are as many */
inline granted(c) {
  assert(!met[c] && !more[c]);
  k_ = 0;
  do
  :: k_ < NC -> assert(k_ == c || !holds[k_] || expired[k_] || expired[c] || (mine[k_] & mine[c]) == 0); k_++
  :: else -> break
  od; k_ = 0; holds[c] = 1
}
inline clear() {
  do :: q[c]?t,p :: empty(q[c]) -> break od; t = 0; p = 0; w[c] = 0; cw[c] = 0
}
#ifdef NOSIZE
#define SIZE 1
#else
#define SIZE (vsize == sizever)
#endif

proctype Client(byte c) {
  byte rounds = ROUNDS, t, p, pred = NONE;
  byte seen, vn, vsize, vver, vinc;   /* the view: slots taken, their number, versions */
  bit known, resent;
  byte tver, tinc;                    /* of the line, by the transaction */
again:
  atomic { if :: rounds == 0 -> goto done :: else -> rounds--; clear(); expired[c] = 0 fi }
  if
  :: goto look
  :: known -> goto atonce
  :: goto join
  fi;

look:
#ifdef SLOTSFIRST
  atomic { looks() }
#endif
  atomic {
    known = 0;
    if :: waiting > 0 -> goto join :: else -> vver = ver; vinc = inc; vn = n; vsize = sizever fi
  }
#ifndef SLOTSFIRST
  atomic { looks() }
#endif
atonce:
  atomic {
    if :: WEIGHT(c) > vn -> known = 0; goto over :: else fi;
    count(seen);
    if :: free_ < WEIGHT(c) -> known = 0; free_ = 0; goto join :: else -> free_ = 0 fi
  }
  atomic {                            /* the transaction */
    if
    :: expired[c] -> goto over
    :: else ->
       if
#ifdef NOCHECK
       :: SIZE ->
#else
       :: vver == ver && SIZE ->
#endif
          tinc = inc; met[c] = (waiting > 0);
          ver++; tver = ver; take(c, seen);
          if
          :: lost > 0 -> lost--; resent = 1
          :: resent = 0
          fi
       :: else -> known = 0; goto join
       fi
    fi
  }
  if :: resent -> goto again_sent :: else fi;
taken:
  atomic {
    if
    :: expired[c] -> known = 0; goto over
#ifndef ANYLINE
    :: !expired[c] && vinc != tinc -> goto giveback   /* another line */
    :: !expired[c] && vinc == tinc ->
#else
    :: else ->
#endif
       known = !resent; vver = tver; seen = seen | mine[c]; goto holding
    fi
  }
again_sent:                           /* the reply was lost; others have gone on since */
  atomic {
#ifdef CHECKFIRST
    mine[c] = 0; known = 0; goto join
#else
    goto taken                        /* NodeExists at the first create */
#endif
  }
giveback:
  atomic {
    if :: expired[c] -> goto over :: else drop(c) fi;
    mine[c] = 0; met[c] = 0; more[c] = 0; known = 0; goto join
  }

join:
  atomic {
    resent = 0;
    if :: expired[c] -> goto over :: else fi;
    my[c] = nxt; nxt++; alive[my[c]] = 1; owner[my[c]] = c; waiting++; ver++; mark()
  }
list:
  atomic {
    if
    :: expired[c] || !alive[my[c]] -> goto over
    :: else ->
       if
       :: front == my[c] -> pred = NONE; w[c] = w[c] | BIT(my[c])
       :: else -> m_ = my[c]-1; do :: !alive[m_] -> m_-- :: else -> break od;
          pred = m_; m_ = 0; w[c] = w[c] | BIT(pred) | BIT(my[c]); goto wait
       fi
    fi
  }
first:
#ifdef LATEWATCH
  atomic { looks(); vn = n; vsize = sizever }
  atomic { cw[c] = 1 }
#else
  atomic { looks(); vn = n; vsize = sizever; cw[c] = 1 }
#endif
  atomic {
    if :: WEIGHT(c) > vn -> del(my[c],DEL); goto over :: else fi;
    count(seen);
    if :: free_ < WEIGHT(c) -> free_ = 0; goto wait :: else -> free_ = 0 fi
  }
  atomic {                            /* the transaction */
    if
    :: expired[c] || !alive[my[c]] -> goto over
    :: else ->
       if
       :: SIZE ->
          assert(front == my[c]);
          met[c] = 0; take(c, seen); del(my[c],SIG); my[c] = NONE; known = 0; goto holding
       :: else -> goto first
       fi
    fi
  }
wait:
  if
  :: atomic { q[c]?t,p ->
       if
       :: t == CHILD -> if :: pred == NONE -> goto first :: else -> goto wait fi
       :: t != CHILD && p == my[c] -> goto over
       :: t == SIG && p == pred && p != my[c] -> pred = NONE; goto first
       :: t == DEL && p == pred && p != my[c] -> goto list
       :: else -> goto wait
       fi }
  :: expired[c] && empty(q[c]) -> goto over
#ifdef CANCEL
  :: atomic { !expired[c] -> del(my[c],DEL); goto over }
#endif
  fi;

holding:
  atomic { t = 0; p = 0; pred = NONE; granted(c) }
  atomic {
    holds[c] = 0;
    /* nobody else deletes a holder's slots */
    assert(expired[c] || at[c] == mine[c]);
    if
    :: !expired[c] -> drop(c); if :: lost > 0 -> lost--; resent = 1 :: resent = 0 fi
    :: else -> resent = 0; known = 0
    fi
  }
  if
  :: resent ->
     atomic { resent = 0;
#ifdef FIXED
       k_ = 0; m_ = 0;
       do :: k_ < NC -> if :: (at[k_] & mine[c]) != 0 -> at[k_] = at[k_] & ~mine[c]; m_ = 1 :: else fi; k_++ :: else -> break od;
       k_ = 0; if :: m_ -> m_ = 0; children() :: else fi;
#endif
       skip }
  :: else
  fi;
over:
  atomic {
    t = 0; p = 0; pred = NONE; my[c] = NONE; resent = 0; met[c] = 0; more[c] = 0; tver = 0; tinc = 0;
    if :: known -> seen = seen & ~mine[c] :: else -> seen = 0; vver = 0; vinc = 0; vn = 0; vsize = 0 fi;
    mine[c] = 0; goto again
  }
done:
  fin++;
enddrain:
  do :: atomic { q[c]?t,p -> t = 0; p = 0 } od
}

active proctype Adversary() {
  byte e = EXP, v = EVI, r = REMAKE, z = RES, c, i, t, p;
  do
#if EXP > 0
  :: atomic { e > 0 -> e--; c = 0; do :: c < NC-1 -> c++ :: break od;
       if
       :: !expired[c] ->
          expired[c] = 1; w[c] = 0; cw[c] = 0;
          do :: q[c]?t,p :: empty(q[c]) -> break od;
          i = 0; do :: i < MAXP -> if :: alive[i] && owner[i] == c -> del(i,DEL) :: else fi; i++ :: else -> break od;
          drop(c)
       :: else
       fi; c = 0; i = 0; t = 0; p = 0 }
#endif
#if EVI > 0
  :: atomic { v > 0 -> v--; i = 0; do :: i < MAXP-1 -> i++ :: break od; if :: alive[i] -> del(i,DEL) :: else fi; i = 0 }
#endif
#if REMAKE > 0
  :: atomic { r > 0 && waiting == 0 -> r--; inc++; ver = 0 }
#endif
#if RES > 0
  :: atomic { z > 0 -> z--; if :: n == N -> n = N-1 :: else -> n = N fi; sizever++; children() }
#endif
  :: break
  od
}

init {
  byte i;
  atomic {
    do :: i < NC -> my[i] = NONE; i++ :: else -> break od; i = 0;
    do :: i < NC -> run Client(i); i++ :: else -> break od; i = 0
  }
  fin == NC;
  atomic {
    do :: i < MAXP -> assert(!alive[i]); i++ :: else -> break od; i = 0;
    do :: i < NC -> assert(at[i] == 0); i++ :: else -> break od
  }
}
