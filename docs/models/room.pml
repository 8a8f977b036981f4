/* room.pml: the producers of a queue with a bound, and how one that waits overtakes those ahead of it.
 *
 *   q/room/<n>    place, ephemeral: bit n of line; its holder has left with a put, or was overtaken: bit n of fare
 *   q/puts/<p>    receipt: rc[p]
 *
 * look      list the line: who is ahead
 * farewell  an event: a place ahead has left with its put, so nobody stands ahead of it
 * overtake  multi[ farewell and delete of each place ahead ]: then it is the first. At any time: the model knows no grace.
 * count     behind a sync, if an event of an earlier connection gave the turn
 * put       multi[ receipt; create item; farewell and delete of the own place ]; the place gone: join again
 *
 * -D: NP producers with one item each, MAX the bound, OV how often one that is alive is overtaken (the dead are, always),
 *     DIE how many die at any moment, EXPIRE (the places of the dead go some day), LOST replies of puts,
 *     SWITCH (moves to a follower that lags)
 * Mutants: M_KEEP (an overtaker leaves the places ahead) M_NOPLACE (a put does not need its place)
 *          M_ANYFARE (any farewell gives the turn) M_PLACEFIRST (a put looks at its place before the receipt)
 *          M_NOSYNC (with SWITCH) M_WAIT (nobody overtakes)
 */
#ifndef NP
#define NP 3
#endif
#ifndef MAX
#define MAX 1
#endif
#ifndef OV
#define OV 1
#endif
#ifndef DIE
#define DIE 1
#endif
#ifndef LOST
#define LOST 0
#endif
#ifndef SWITCH
#define SWITCH 0
#endif
#define BIT(n) (1<<(n))
#define HAS(m,n) (((m)>>(n))&1)

short line, fare, deadplaces;   /* the leader's state */
byte number, items;
bit rc[NP], done[NP], dead[NP];
byte ov = OV, die = DIE, lost = LOST;
#if SWITCH > 0
short vline, vfare; byte vitems; bit dirty, srv[NP], need[NP]; byte sw = SWITCH;
#define V(a) (srv[me] -> v##a : a)
#define TXN dirty = 1
#define READ if :: srv[me] -> skip :: else -> need[me] = dirty fi
#define REPLY if :: srv[me] -> apply() :: else -> need[me] = dirty fi
#else
#define V(a) (a)
#define TXN skip
#define READ skip
#define REPLY skip
#endif
byte f_;

inline apply() {
#if SWITCH > 0
  vline = line; vfare = fare; vitems = items; dirty = 0;
  f_ = 0; do :: f_ < NP -> need[f_] = 0; f_++ :: else -> break od; f_ = 0
#else
  skip
#endif
}

#define DIEOPT :: atomic { die > 0 -> die--; goto dying }
#if SWITCH > 0
#define SWITCHOPT :: atomic { sw > 0 && !srv[me] && !need[me] -> sw--; srv[me] = 1; moved = told }
#else
#define SWITCHOPT
#endif

proctype Producer(byte me) {
  short ahead; byte n, k; bit told, moved, mine;
join:
  atomic { n = number; number++; line = line | BIT(n); TXN; REPLY; told = 0; moved = 0; mine = 0 }
look:
  if
  :: atomic { true -> READ; ahead = V(line) & (BIT(n)-1); if :: !HAS(V(line),n) -> goto gone :: else fi }
  DIEOPT
  fi;
wait:
  if
  :: atomic { ahead == 0 -> goto count }
  :: atomic { ahead != 0 && (ahead & ~V(line) & V(fare)) ->    /* the nearest of those that have left with a put */
       k = n; do :: k--; if :: HAS(ahead & ~V(line) & V(fare), k) -> break :: else fi od;
#ifdef M_ANYFARE
       ahead = 0;
#else
       ahead = ahead & ~(BIT(k+1)-1);
#endif
       k = 0; if :: ahead == 0 -> told = 1; moved = 0 :: else fi; goto wait }
  :: atomic { ahead != 0 && (ahead & ~V(line) & ~V(fare)) -> goto look }
  :: atomic { !HAS(V(line),n) -> goto gone }
#ifndef M_WAIT
  :: atomic { ahead != 0 && items < MAX && ((ahead & ~deadplaces) == 0 || ov > 0) ->
       if
       :: (ahead & line) != ahead -> REPLY; goto look           /* NoNode: one has left */
       :: else ->
          if :: (ahead & ~deadplaces) == 0 -> skip :: else -> ov-- fi;
#ifndef M_KEEP
          line = line & ~ahead; fare = fare | ahead; TXN;
#endif
          printf("P%d overtakes %d\n", me, ahead);
          REPLY; ahead = 0; told = 0; moved = 0; goto count
       fi }
#endif
  DIEOPT
  SWITCHOPT; goto wait
  fi;
count:
  if
  :: atomic { V(items) < MAX || moved ->
       if :: moved ->
#ifndef M_NOSYNC
          apply();
#endif
          moved = 0; told = 0;
          if :: V(items) >= MAX -> goto count :: else fi
       :: else fi;
       READ }
  :: atomic { V(items) >= MAX && !HAS(V(line),n) -> goto gone }
  DIEOPT
  SWITCHOPT; goto count
  fi;
  if
  :: moved -> goto count
  :: else
  fi;
put:
  if
  :: atomic { true ->
#ifdef M_PLACEFIRST
       if :: !HAS(line,n) -> REPLY; goto gone :: else fi;
#endif
       if
       :: rc[me] -> REPLY; goto ok                          /* it was carried out before */
#ifndef M_NOPLACE
       :: !rc[me] && !HAS(line,n) -> REPLY; goto gone
#endif
       :: else ->
          items++; assert(items <= MAX); assert(!mine); mine = 1; rc[me] = 1;
          line = line & ~BIT(n); fare = fare | BIT(n); TXN;
          printf("P%d puts\n", me);
          if
          :: REPLY; goto ok
          :: lost > 0 -> lost--; goto put
          fi
       fi }
  DIEOPT
  fi;
gone:
  atomic { assert(!rc[me]); ahead = 0; goto join };
ok:
  atomic { assert(mine); done[me] = 1; goto end };
dying:
  atomic { dead[me] = 1; if :: HAS(line,n) -> deadplaces = deadplaces | BIT(n) :: else fi; printf("P%d dies\n", me) };
#ifdef EXPIRE
  atomic { line = line & ~BIT(n); deadplaces = deadplaces & ~BIT(n); TXN };
#endif
end:
  skip
}
active proctype Consumer() {
endc: do :: atomic { items > 0 -> items--; TXN } od
}
#if SWITCH > 0
active proctype Follower() {
endf: do :: atomic { dirty -> apply() } od
}
#endif
active proctype Monitor() {
  byte i;
  atomic {
  timeout ->
  do :: i < NP -> assert(done[i] || dead[i]); i++ :: else -> break od;
  assert((line & ~deadplaces) == 0); assert(items == 0)
  }
}
init {
  byte i;
  atomic { do :: i < NP -> run Producer(i); i++ :: else -> break od; i = 0 }
}
