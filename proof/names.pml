/* Names of keys: a key of an epoch names counts, the key of the epoch before finds counts from before. Keys
   are made by whoever needs one first, and kept in a vault, sealed under a line of the secret file, which is
   rotated in three steps. A call names its counts before it is sent, and has a term.

   Checked: no W+1 slots in a row have more than one admitted unit, whichever names they were counted under.
   No machine finds a key that it can't open.

   Left out: leases (a claim is spent at once), keys that are lost or destroyed, keys without epochs, more
   than one length of epochs. While the operator looks whether a rotation is over, no key is being added.
   The earliest time that a machine knows is behind the store's by a slot at most, and its own time is ahead by
   as much, which is less than the time (late) in which the key of the epoch before may still be made.

   Go: identity/epoch: Keys.At, Keys.Known, Keys.open, Keys.readOrMake, Keys.Agree, Keys.Seals, inVault.read,
   inVault.add, inVault.sealAgain
   Go: identity/atrest: HashKey, hashUnder, OpaqueToday
   Go: internal/engine/clock: Clock.Earliest
   Go: internal/engine: connection.nameOf, connection.inTerms, writer.claimOf
   Go: storage: Term.Holds, Claim.IsRenamed
   Go: storage/sqlite: renames.move

   Share: -DT=4
   Mutant: FORMER     a claim doesn't name the counts of the epoch before
   Mutant: TERM       a call takes effect outside of its term
   Mutant: OWNKEY     a machine uses the key that it has made, not the one that is kept
   Mutant: MISSING    a machine remembers that an epoch has no key when it may still be made
   Mutant: HURRY      the new line becomes the first one before all machines have it
   Mutant: IDLE       a machine without keys to seal again reports a rotation as finished
   Mutant: UNSEALED   values stay sealed under the old line when the new one is the first
   Mutant: AHEAD      a call is named as of a time that the store has not reached */
#define E 2    /* slots of an epoch */
#define W 1    /* slots of a window */
#ifndef T
#define T 5    /* slots in all */
#endif
#define M 2    /* machines */
#define LATE 1 /* slots of an epoch in which the key of the one before may be made */
byte now, adm[T], used[18]; /* used: under name e*M + maker - 1, in the slot now - age: name*3 + age */
byte key[3], seal[3];       /* of an epoch: who made it, 0 if nobody; 1 if it is sealed under the new line */
byte state[M];              /* 0 idle, 1 adding a key, 2 a call is under way */
byte cached[M], cur[M], prev[M]; /* the known pair: its epoch + 1, and who made its keys */
byte asked[M], named[M], former[M], sealing[M];
byte step[M];               /* of the rotation: 0 old, 1 old and new, 2 new and old, 3 new */
bool over;                  /* the operator knows that the old line may go */
byte i, e, sum;

#define opens(m, s) (s -> step[m] > 0 : step[m] < 3)
#define least (step[0] < step[1] -> step[0] : step[1])
#define sealed(s) ((key[0] > 0 && seal[0] == s) || (key[1] > 0 && seal[1] == s) || (key[2] > 0 && seal[2] == s))

inline prepare(m, t) { /* Keys.At, hashUnder */
	e = (t) / E;
	if
#ifdef MISSING
	:: cached[m] == e + 1 -> skip
#else
	:: cached[m] == e + 1 && (prev[m] > 0 || (t) - e * E > LATE) -> skip
#endif
	:: else ->
		cached[m] = e + 1; prev[m] = 0;
		if :: e > 0 -> assert(key[e - 1] == 0 || opens(m, seal[e - 1])); prev[m] = key[e - 1] :: else -> skip fi;
		if
		:: key[e] == 0 -> cur[m] = 0; sealing[m] = (step[m] >= 2 -> 1 : 0)
		:: else -> assert(opens(m, seal[e])); cur[m] = key[e]
		fi
	fi;
	asked[m] = e + 1; named[m] = cur[m];
#ifndef FORMER
	former[m] = ((t) - e * E < W + 1 -> prev[m] : 0);
#endif
	state[m] = (cur[m] == 0 -> 1 : 2); e = 0
}
inline add(m) { /* inVault.add */
	e = asked[m] - 1;
	if :: key[e] == 0 -> key[e] = m + 1; seal[e] = sealing[m] :: else -> assert(opens(m, seal[e])) fi;
#ifdef OWNKEY
	cur[m] = m + 1;
#else
	cur[m] = key[e];
#endif
	named[m] = cur[m]; sealing[m] = 0; state[m] = 2; e = 0
}
inline idle(m) { state[m] = 0; asked[m] = 0; named[m] = 0; former[m] = 0 }
#define at(m, maker, age) used[((asked[m] - 1) * M + maker - 1) * 3 + age]
#define before(m, maker, age) used[((asked[m] - 2) * M + maker - 1) * 3 + age]

inline call(m) { /* connection.inTerms, Limit.Claim, renames.move */
	if
#ifdef TERM
	:: true ->
#else
	:: now / E == asked[m] - 1 ->
#endif
		i = 0; sum = 0;
		do
		:: i <= W ->
			if
			:: former[m] > 0 && asked[m] > 1 ->
				at(m, named[m], i) = at(m, named[m], i) + before(m, former[m], i); before(m, former[m], i) = 0
			:: else -> skip
			fi;
			sum = sum + at(m, named[m], i); i++
		:: else -> break
		od;
		if
		:: sum == 0 -> at(m, named[m], 0) = 1; adm[now] = adm[now] + 1;
			i = 0;
			do :: i + W < T -> assert(adm[i] + adm[i + 1] <= 1); i++ :: else -> break od
		:: else -> skip
		fi
	:: else -> skip /* ErrTerm: it is named again */
	fi;
	idle(m); i = 0; sum = 0
}

proctype Machine(byte m) {
	do
	:: d_step { state[m] == 0 -> prepare(m, now) }
#ifdef AHEAD
	:: d_step { state[m] == 0 && now + 1 < T -> prepare(m, now + 1) }
#else
	:: d_step { state[m] == 0 && now > 0 -> prepare(m, now - 1) }
#endif
	:: d_step { state[m] == 0 && now + 1 < T -> prepare(m, now + 1); if :: state[m] == 1 -> add(m) :: else fi; idle(m) } /* for a log */
	:: d_step { state[m] == 1 -> add(m) }
	:: d_step { state[m] == 2 -> call(m) }
	:: d_step { step[m] == 0 -> step[m] = 1 }
#ifdef HURRY
	:: d_step { step[m] == 1 -> step[m] = 2;
#else
	:: d_step { step[m] == 1 && least >= 1 -> step[m] = 2;
#endif
#ifndef UNSEALED
			seal[0] = 1; seal[1] = 1; seal[2] = 1 /* inVault.sealAgain */
#endif
		}
#ifdef IDLE
	:: d_step { step[m] == 2 && !over && !sealed(0) -> over = true }
#elif defined(UNSEALED)
	:: d_step { step[m] == 2 && !over && least >= 2 -> over = true }
#else
	:: d_step { step[m] == 2 && !over && least >= 2 && !sealed(0) && sealing[0] + state[0] != 1 && sealing[1] + state[1] != 1 -> over = true }
#endif
	:: d_step { step[m] == 2 && over -> step[m] = 3 }
	od
}

proctype Clock() { do :: d_step { now + 1 < T -> now++; i = 0;
	do :: i < 6 -> used[i * 3 + 2] = 0; used[i * 3 + 1] = used[i * 3]; used[i * 3] = 0; i++ :: else -> break od; i = 0 } :: break od }

init { atomic { run Machine(0); run Machine(1); run Clock() } }
