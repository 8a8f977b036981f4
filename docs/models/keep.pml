/* keep.pml: a lock that is kept (KeepFor), in a line with sessions that do not keep.
 *
 * Server: places (ephemeral sequential children), one child watch on the line for each
 * keeping session, one-shot watches on places, for each session an ordered queue of
 * replies and events. NK sessions keep: each has CALLS local calls, which wait in the
 * process, first come first served, and at most one place. NJ sessions take a place,
 * hold and leave, ROUNDS times; the first NF of them are foreign: they list at every
 * event, and send no signal.
 *
 * How a place waits and is woken is modeled elsewhere. Here a place of a keeping session
 * is granted when a listing shows it first.
 * Callers that step aside, because their number is beyond the limit, are left out: a
 * lock is not kept if the answer to the watch says that the line's numbers are.
 *
 * Budgets of the adversary: EXP sessions expire, EVI places are deleted, DISC
 * connections of keeping sessions are lost, LOSE of their watches are never armed
 * again and their events never come. CANCEL: local callers may give up.
 *
 * Mutants, each of which must break:
 *   NOWATCH    kept without the child watch
 *   NOTALONE   the watch's answer shows another place, and the place is kept
 *   LATEFIRST  local calls that came after the event go before the other session
 *   NOD        no bound on how long an idle place is kept (breaks with LOSE)
 *   NOLIMIT    the numbers of local grants do not end (they end at MAXNUM)
 *   NOCLOCK    a local grant does not look at the session's clock (breaks with EXP)
 */
#ifndef NK
#define NK 1
#endif
#ifndef NJ
#define NJ 1
#endif
#ifndef NF
#define NF 0
#endif
#ifndef CALLS
#define CALLS 3
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
#ifndef DISC
#define DISC 0
#endif
#ifndef LOSE
#define LOSE 0
#endif
#ifndef MAXNUM
#define MAXNUM 1
#endif
#define NC (NK+NJ)
#define MAXP (NK*CALLS+NJ*ROUNDS+EXP)
#define NONE 31
#define BIT(p) (1<<(p))
#define HAS(m,p) (((m)>>(p))&1)

/* messages to a client */
#define DEL 1    /* a watched place was deleted */
#define SIG 2    /* and its holder said before that it leaves */
#define CHILD 3  /* the line's children have changed */
#define ANS 4    /* answer to the child watch: 1 own place alone, 0 not */
#define DSC 5    /* the connection was lost with the request */

/* states of a keeping session */
#define FREE 0
#define WAITS 1
#define HELD 2
#define ASKS 3   /* released; the child watch is being set */
#define IDLE 4   /* kept, and nobody holds it */

bit alive[MAXP]; byte owner[MAXP]; bit firstg[MAXP];
byte nxt, nalive, front = NONE;   /* front: the first place */
int w[NC];              /* server: watches on places */
bit cw[NC], rq[NC];     /* server: child watch; request for one */
bit sw[NC], chg[NC];    /* to be armed again after a reconnect; the line has changed since */
bit lost[NC];           /* its watch was lost for ever */
byte coming[NC];        /* events CHILD in its queue */
byte st[NC], my[NC], nb[NC], na[NC], num[NC], budget[NC];
bit table[NC];          /* client: a child watch is armed, as far as it knows */
bit fired[NC], kept[NC]; /* client: under a watch answered alone; which has fired */
byte hold[NC];
bit expired[NC];
byte fin, last;         /* last: the highest token granted */
byte lose = LOSE;
chan q[NC] = [MAXP+5] of { byte, byte };

byte f_, m_, k_;   /* scratch */

/* the children have changed */
inline children() {
  f_ = 0;
  do
  :: f_ < NK ->
     if :: cw[f_] -> cw[f_] = 0; coming[f_]++; q[f_]!CHILD,0 :: else fi;
     if :: sw[f_] -> chg[f_] = 1 :: else fi; f_++
  :: else -> break
  od; f_ = 0
}
inline mark() {
  m_ = 0; do :: m_ < MAXP && !alive[m_] -> m_++ :: else -> break od;
  if :: m_ < MAXP -> firstg[m_] = 1; front = m_ :: else -> front = NONE fi; m_ = 0
}
inline create(s) {
  my[s] = nxt; nxt++; alive[my[s]] = 1; owner[my[s]] = s; nalive++; children(); mark()
}
inline del(p,t) {
  if
  :: alive[p] ->
     alive[p] = 0; nalive--;
     f_ = 0;
     do
     :: f_ < NC -> if :: HAS(w[f_],p) -> w[f_] = w[f_] & ~BIT(p); q[f_]!t,p :: else fi; f_++
     :: else -> break
     od;
     children(); mark()
  :: else
  fi
}
#define TOKEN(s) (my[s]*(MAXNUM+1)+num[s]+1)
/* A local grant of a place that somebody deleted unheard may come late: its token is low, its commits fail. */
inline granted(s) {
  assert(firstg[my[s]]);
  hold[s] = my[s];
  if
  :: alive[my[s]] ->
     assert(TOKEN(s) > last); last = TOKEN(s);
     m_ = 0; do :: m_ < NC -> assert(m_ == s || hold[m_] == NONE || !alive[hold[m_]]); m_++ :: else -> break od; m_ = 0
  :: else
#ifdef NOCLOCK
     assert(!expired[s])
#endif
  fi
}

inline gone(s) { my[s] = NONE; st[s] = FREE; kept[s] = 0; fired[s] = 0; num[s] = 0; budget[s] = 0; nb[s] = nb[s]+na[s]; na[s] = 0 }
inline leave(s) { del(my[s], SIG); gone(s) }
inline next(s) { nb[s]--; num[s]++; st[s] = HELD; if :: fired[s] -> assert(budget[s] > 0); budget[s]-- :: else fi; granted(s) }
/* the place is alone, as the watch says */
inline pass(s) {
  if :: nb[s] > 0 -> next(s) :: else -> st[s] = IDLE fi
}
#ifdef NOCLOCK
#define LIVE(s) 1
#else
#define LIVE(s) (!expired[s])
#endif

proctype Keeper(byte s) {
  byte left = CALLS, t, p;
  do
  /* a local caller comes, or gives up */
  :: atomic { left > 0 -> left--; if :: fired[s] -> na[s]++ :: else -> nb[s]++ fi }
#ifdef CANCEL
  :: atomic { nb[s] > 0 -> nb[s]--; if :: budget[s] > nb[s] -> budget[s] = nb[s] :: else fi }
  :: atomic { na[s] > 0 -> na[s]-- }
#endif
  /* events and answers */
  :: atomic { q[s]?t,p ->
       if
       :: t == CHILD -> coming[s]--; table[s] = 0;
          if :: kept[s] && !fired[s] -> fired[s] = 1; budget[s] = nb[s] :: else fi
       :: t == ANS && st[s] == ASKS ->
          if
#ifdef NOTALONE
          :: true -> kept[s] = 1; pass(s)
#else
          :: p == 1 && LIVE(s) -> kept[s] = 1; pass(s)
          :: else -> leave(s)
#endif
          fi
       :: t == DSC && st[s] == ASKS -> leave(s)
       :: else
       fi; t = 0; p = 0 }
  /* the session has ended */
  :: atomic { expired[s] && LIVE(s) == 0 && empty(q[s]) -> hold[s] = NONE; gone(s); table[s] = 0; expired[s] = 0 }
#ifdef NOCLOCK
  :: atomic { expired[s] && empty(q[s]) -> hold[s] = NONE; gone(s); table[s] = 0; expired[s] = 0 }
#endif
  /* taking a place */
  :: atomic { st[s] == FREE && nb[s] > 0 && !expired[s] -> create(s); st[s] = WAITS }
  :: atomic { st[s] == WAITS && !expired[s] && !alive[my[s]] -> nb[s] = 0; na[s] = 0; gone(s) }  /* evicted: an error for all that wait */
  :: atomic { st[s] == WAITS && !expired[s] && alive[my[s]] && nb[s] == 0 -> del(my[s], DEL); gone(s) }
  :: atomic { st[s] == WAITS && !expired[s] && front == my[s] && nb[s] > 0 -> nb[s]--; num[s] = 0; st[s] = HELD; granted(s) }
  /* release */
  :: atomic { st[s] == HELD && LIVE(s) ->
       hold[s] = NONE;
       if
#ifndef NOLIMIT
       :: num[s] == MAXNUM -> leave(s)
#endif
#ifdef NOLIMIT
       :: !kept[s]
#else
       :: num[s] < MAXNUM && !kept[s]
#endif
          ->
#ifdef NOWATCH
          pass(s)
#else
          if :: table[s] -> leave(s) :: else -> st[s] = ASKS; rq[s] = 1; table[s] = 1 fi
#endif
#ifdef NOLIMIT
       :: kept[s] && !fired[s] -> pass(s)
       :: kept[s] && fired[s] && nb[s] > 0 -> next(s)
#else
       :: num[s] < MAXNUM && kept[s] && !fired[s] -> pass(s)
       :: num[s] < MAXNUM && kept[s] && fired[s] && nb[s] > 0 -> next(s)
#endif
#ifdef LATEFIRST
       :: kept[s] && fired[s] && nb[s] == 0 && na[s] > 0 -> na[s]--; nb[s]++; next(s)
#endif
       :: kept[s] && fired[s] && nb[s] == 0 -> leave(s)
       fi }
  /* idle */
  :: atomic { st[s] == IDLE && nb[s] > 0 && !fired[s] && LIVE(s) -> next(s) }
  :: atomic { st[s] == IDLE && fired[s] && LIVE(s) -> leave(s) }
#ifndef NOD
  :: atomic { st[s] == IDLE && LIVE(s) -> leave(s) }                   /* d has passed */
#endif
  :: atomic { left == 0 && st[s] == FREE && nb[s] == 0 && na[s] == 0 -> break }
  od;
  fin++;
enddrain:
  do
  :: atomic { q[s]?t,p -> if :: t == CHILD -> coming[s]--; table[s] = 0 :: else fi; t = 0; p = 0 }
  od
}

proctype Joiner(byte s; bit foreign) {
  byte rounds = ROUNDS, pred = NONE, t, p;
again:
  if :: rounds == 0 -> goto done :: else -> rounds-- fi;
  atomic {
    if :: expired[s] -> expired[s] = 0; do :: q[s]?t,p :: empty(q[s]) -> break od :: else fi;
    w[s] = 0; t = 0; p = 0; create(s)
  }
list:
  atomic {
    if
    :: expired[s] || !alive[my[s]] -> goto over
    :: else ->
       if
       :: front == my[s] -> pred = NONE; goto grant
       :: else -> k_ = my[s]-1; do :: !alive[k_] -> k_-- :: else -> break od;
          pred = k_; k_ = 0; w[s] = w[s] | BIT(pred) | BIT(my[s])
       fi
    fi
  }
wait:
  if
  :: atomic { q[s]?t,p ->
       if
       :: p == my[s] -> goto over
       :: p == pred && t == SIG && !foreign -> goto grant
       :: p == pred && (t != SIG || foreign) -> goto list
       :: else -> goto wait
       fi }
  :: expired[s] && empty(q[s]) -> goto over
  fi;
grant:
  atomic { t = 0; p = 0; if :: expired[s] -> goto over :: else -> num[s] = 0; granted(s) fi }
  atomic {
    hold[s] = NONE;
    if
    :: alive[my[s]] && !foreign -> del(my[s], SIG)
    :: alive[my[s]] && foreign -> del(my[s], DEL)
    :: else
    fi
  }
over:
  atomic { t = 0; p = 0; pred = NONE; my[s] = NONE; hold[s] = NONE; goto again }
done:
  fin++;
enddrain:
  do :: atomic { q[s]?t,p -> t = 0; p = 0 } od
}

proctype Server(byte s) {
endsrv:
  do
  :: atomic { rq[s] && !sw[s] -> rq[s] = 0; cw[s] = 1;
       if
       :: my[s] != NONE && alive[my[s]] && nalive == 1 -> q[s]!ANS,1
       :: else -> q[s]!ANS,0
       fi }
#if DISC > 0
  :: atomic { sw[s] -> sw[s] = 0;
       if
       :: chg[s] -> coming[s]++; q[s]!CHILD,0
       :: !chg[s] -> cw[s] = 1
       :: lose > 0 -> lose--; lost[s] = 1
       fi; chg[s] = 0 }
#endif
  od
}

active proctype Adversary() {
  byte e = EXP, v = EVI, d = DISC, i, c, t, p;
  do
#if EXP > 0
  :: atomic { e > 0 -> e--; c = 0; do :: c < NC-1 -> c++ :: break od;
       if
       :: !expired[c] ->
          expired[c] = 1; w[c] = 0; cw[c] = 0; rq[c] = 0; sw[c] = 0; chg[c] = 0; coming[c] = 0; lost[c] = 0;
          do :: q[c]?t,p :: empty(q[c]) -> break od;
          i = 0; do :: i < MAXP -> if :: alive[i] && owner[i] == c -> del(i,DEL) :: else fi; i++ :: else -> break od
       :: else
       fi; c = 0; i = 0; t = 0; p = 0 }
#endif
#if EVI > 0
  :: atomic { v > 0 -> v--; i = 0; do :: i < MAXP-1 -> i++ :: break od; if :: alive[i] -> del(i,DEL) :: else fi; i = 0 }
#endif
#if DISC > 0
  :: atomic { d > 0 -> d--; c = 0; do :: c < NK-1 -> c++ :: break od;
       if
       :: !expired[c] && table[c] ->
          chg[c] = (chg[c] || coming[c] > 0); coming[c] = 0; i = rq[c]; rq[c] = 0;
          do :: q[c]?t,p -> if :: t == ANS -> i = 1 :: else fi :: empty(q[c]) -> break od;
          cw[c] = 0;
          if :: i -> table[c] = 0; chg[c] = 0; q[c]!DSC,0 :: else -> sw[c] = 1 fi
       :: else
       fi; c = 0; i = 0; t = 0; p = 0 }
#endif
  :: break
  od
}

/* A place is kept only under a watch that will tell, unless the connection or the watch was lost. */
#define WATCHED(s) ((cw[s] && nalive == 1) || coming[s] > 0 || sw[s] || lost[s] || expired[s])
#define KEPT(s) ((kept[s] && !fired[s]) || (st[s] == IDLE && !fired[s]))
active proctype Monitor() {
endmon:
  do
  :: atomic { KEPT(0) && !WATCHED(0) -> assert(0) }
#if NK > 1
  :: atomic { KEPT(1) && !WATCHED(1) -> assert(0) }
#endif
  od
}

init {
  byte i;
  atomic {
    i = 0;
    do :: i < NC -> hold[i] = NONE; my[i] = NONE; i++ :: else -> break od; i = 0;
    do :: i < NK -> run Keeper(i); run Server(i); i++ :: else -> break od;
    do :: i < NC -> run Joiner(i, i-NK < NF); i++ :: else -> break od; i = 0
  }
  fin == NC;
  atomic { i = 0; do :: i < MAXP -> assert(!alive[i]); i++ :: else -> break od }
}
