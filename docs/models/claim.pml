/* The sweep of a queue's claim whose flag is gone.
 *
 * A claim is a flag (a name of its own) and the exclusion c (a fixed name; its Stat tells owner, czxid and version of its
 * data). All sessions may write c: the list that it bears is the same for all. An operator deletes flags and exclusions.
 * A session that finds its flag gone sweeps what is left of its claim, or nobody could take the item until the session ends:
 *
 * read     c is there, and owner and czxid are its own; else there is nothing to sweep
 * write    c in the version that was read, as it is; the reply says whose c is now, and its version
 * delete   c in that version, if it is its own
 *
 * While a session sweeps it makes no claim. Each reply may come late, and others do anything meanwhile.
 * Holds: no sweep deletes the exclusion of a claim that stands, whose flag is there. Not with -DOPC=2 -DNS=3: there the
 * operator deletes two exclusions while two sessions sweep, and one writes what the other has yet to delete.
 *
 * Budgets: OPF deletes a flag   OPC deletes an exclusion
 * Mutants: -DM_BLIND deletes c in the version that was read, without the write   -DM_ANYOWNER does not look at the reply
 */
#ifndef NS
#define NS 3
#endif
#ifndef OPF
#define OPF 2
#endif
#ifndef OPC
#define OPC 1
#endif
#ifndef CLAIMS
#define CLAIMS 2
#endif

bit there; byte owner, inc, ver, made;   /* the exclusion; made counts the znodes: a new one has another czxid */
bit flag[NS]; byte mine[NS];              /* mine: czxid of the session's claim */
byte opf = OPF, opc = OPC;

proctype session(byte me) {
  byte n = CLAIMS, seen;
  do
  :: atomic { n > 0 && !there && made < 250 ->
       n--; made++; there = 1; owner = me; inc = made; ver = 0; flag[me] = 1; mine[me] = made }
     /* it holds the item */
     if
     :: atomic { flag[me] && there && inc == mine[me] -> flag[me] = 0; there = 0 }   /* ack or nack: one transaction */
     :: atomic { flag[me] && !(there && inc == mine[me]) -> flag[me] = 0 }           /* its exclusion is gone: the flag goes alone */
     :: !flag[me] ->                                                                 /* the sweep */
        do
        :: if
           :: atomic { there && owner == me && inc == mine[me] -> seen = ver }
           :: atomic { !(there && owner == me && inc == mine[me]) -> break }
           fi;
#ifndef M_BLIND
           if
           :: atomic { there && ver == seen -> ver++; seen = ver;
                if
                :: owner == me && inc == mine[me] -> skip
#ifdef M_ANYOWNER
                :: else -> skip
#else
                :: else -> break
#endif
                fi }
           :: atomic { !(there && ver == seen) -> goto again }
           fi;
#endif
           if
           :: atomic { there && ver == seen ->
                assert(!(flag[owner] && mine[owner] == inc));
                there = 0; break }
           :: atomic { !(there && ver == seen) -> skip }
           fi;
again:     skip
        od
     fi
  :: n == 0 -> break
  :: atomic { n > 0 && there && owner != me -> skip }  /* taken by another: come back */
     if :: !there :: true -> break fi
  od
}

active proctype operator() {
  byte i;
  do
  :: opf > 0 -> atomic { opf--; select(i : 0 .. NS-1); flag[i] = 0 }
  :: opc > 0 -> atomic { opc--; there = 0 }
  :: break
  od
}

init { byte i; atomic { i = 0; do :: i < NS -> run session(i); i++ :: else -> break od } }
