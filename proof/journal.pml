/* The journal of SQLite: a process that is alone owns it and charges by adding records. Whoever opens the
   database revokes the owner and folds the records into the tables. Processes are killed at any moment. A write that
   is prompt ends while those who have revoked its owner wait. One that hangs may land after its period was folded;
   that of a killed process ends before its locks do.
   Checked: no key has more than L admitted units, and the tables never have more than were charged.
   Left out: units given back, slots, checksums, damage, loss of power, replaced files, the Bloom filter, several
   records per segment and write, requests that memory admits while a write hangs, simultaneous claims of a process.
   Go: storage/sqlite/internal/journal: Journal.Own, Journal.Disown, Journal.Owned, Journal.isOwner, Journal.revoke,
   Journal.Add, Journal.writeLocked, Journal.nextSegmentLocked, Journal.Free, Journal.Seal, Segment.ReadPending
   Go: storage/sqlite: Store.ClaimAtOnce, periods.note, periods.beginPeriodLocked, Store.claimLocked, folds.foldAllLocked,
   folds.foldPartLocked, progress.has, progress.batch, fold.next, pending.apply

   Share: -DR=3
   Mutant: ELECT      Own doesn't take the lock that Open takes
   Mutant: CHECK      Add doesn't look whether it was revoked while it hung
   Mutant: PROMPT     a newcomer doesn't wait for a write that is prompt
   Mutant: FIRST      a newcomer doesn't wait after one that was killed while it did
   Mutant: ORDER      a newcomer folds before it revokes the owner
   Mutant: STAY       a newcomer doesn't revoke the owner
   Mutant: AGAIN      the progress of a fold is noted after the rows, not with them
   Mutant: SKIP       all records of a fold that has begun count as folded
   Mutant: FREE       segments are used again before they are folded completely
   Mutant: GEN        a segment that is used again has records of its former use
   Mutant: WAIT       a revoked process becomes the owner again before its last write has ended
   Mutant: LOCKS      the locks of a killed process end before a write of it that hangs
   Mutant: NOFOLD     a transaction doesn't fold what is pending */
#define N 3 /* times that a process opens the database */
#define L 2 /* units */
#ifndef R
#define R 4 /* records in all */
#endif
#define P 2 /* processes */
#define S 2 /* segments */
byte owner, elected, tokens, newest, opened; /* the owner word; who has the election lock; the last token and generation */
byte gen[S], rec[S], recGen[S];              /* the segments: generation, and a record: its key + 1, and its generation */
byte db[2], folded, upto, below;             /* the tables: units, and the progress */
byte charged[2], admitted[2]; bool present[P];
byte phase[P], token[P]; /* 0 closed, 1 opening, 2 open, 3 about to own, 4 folding before it revokes, 5 revoked */
byte add[P], key[P], place[P], use[P]; /* 0 none, 1 decided, 2 writes to a place of a generation, 3 written */
byte again[P], s, n, last; bool prompt[P]; /* its write began as the owner, and doesn't hang */
#define other (1 - p)
#ifdef PROMPT
#define waited true
#else
#define waited (!prompt[other])
#endif
#ifdef WAIT
#define idle true
#else
#define idle (add[p] == 0)
#endif
#define owns (phase[p] == 2 && token[p] > 0 && owner == token[p] && add[p] == 0)
#ifdef FREE
#define FREED (upto > folded -> upto : folded)
#else
#define FREED folded
#endif
#if defined(STAY)
#define REVOKED owner
#define NOBODY owner
#elif defined(FIRST)
#define REVOKED 0
#define NOBODY 0
#else
#define REVOKED 255
#define NOBODY 0
#endif
#ifdef SKIP
#define has(g, k) (g <= folded || g <= upto)
#else
#define has(g, k) (g <= folded || (g <= upto && k < below))
#endif
#define valid(s) (rec[s] > 0 && recGen[s] == gen[s])
#define settled (add[p] < 2) /* segments are sealed, and written to, under one lock */
#ifdef NOFOLD
#define mayClaim (phase[p] == 2 && add[p] == 0)
#else
#define mayClaim (phase[p] == 2 && add[p] == 0 && !pending && below == 0)
#endif
#define pending ((gen[0] > folded && valid(0)) || (gen[1] > folded && valid(1)))

inline count(k) { /* pending.apply */
	n = db[k]; s = 0;
	do :: s < S -> n = n + (valid(s) && rec[s] == k + 1 && !has(gen[s], k)); s++ :: else -> break od; s = 0
}
inline admit(k) { admitted[k] = admitted[k] + 1; assert(admitted[k] <= L) }
inline finish() { add[p] = 0; key[p] = 0; place[p] = 0; use[p] = 0; prompt[p] = false }
inline reserve() { /* Journal.nextSegmentLocked */
	s = 0;
	do :: s < S && gen[s] > FREED -> s++ :: else -> break od;
	if :: s < S -> newest++; gen[s] = newest; use[p] = newest; place[p] = s; add[p] = 2; prompt[p] = true;
#ifdef GEN
		recGen[s] = newest
#endif
	:: else -> finish() fi; s = 0
}
inline fold() { /* folds.foldPartLocked */
	last = (below > 0 -> upto : (gen[0] > gen[1] -> gen[0] : gen[1])); s = 0;
	do :: s < S ->
		if :: valid(s) && rec[s] == below + 1 && gen[s] > folded && gen[s] <= last -> db[below] = db[below] + 1 :: else -> skip fi;
		assert(db[below] <= charged[below]); s++
	:: else -> break od;
#ifdef AGAIN
	again[p] = last + 1;
#else
	progress();
#endif
	s = 0; last = 0 }
inline progress() { if :: below == 0 -> upto = last; below = 1 :: else -> folded = last; upto = 0; below = 0 fi }
proctype Process(byte p) {
	do
	:: d_step { phase[p] == 0 && opened < N && elected == 0 -> opened++; elected = p + 1; present[p] = true; phase[p] = 1 }
#ifdef ORDER
	:: d_step { phase[p] == 1 -> elected = 0; phase[p] = 4 }
	:: d_step { phase[p] == 4 && !pending && below == 0 -> owner = 0; phase[p] = 2 }
#else
	:: d_step { phase[p] == 1 -> if :: owner == 0 -> elected = 0; phase[p] = 2 :: else -> owner = REVOKED; phase[p] = 5 fi }
	:: d_step { phase[p] == 5 && waited -> owner = NOBODY; elected = 0; phase[p] = 2 }
#endif
#ifdef ELECT
	:: d_step { phase[p] == 2 && token[p] == 0 && !present[other] -> phase[p] = 3 }
	:: d_step { phase[p] == 3 -> phase[p] = 2; tokens++; token[p] = tokens; owner = tokens }
#else
	:: d_step { phase[p] == 2 && token[p] == 0 && elected == 0 -> elected = p + 1; phase[p] = 3 }
	:: d_step { phase[p] == 3 -> phase[p] = 2; elected = 0; if :: !present[other] -> tokens++; token[p] = tokens; owner = tokens :: else -> skip fi }
#endif
	:: d_step { owns && newest < R -> count(0); if :: n < L -> add[p] = 1 :: else -> skip fi; n = 0 } /* Store.ClaimAtOnce */
	:: d_step { owns && newest < R -> count(1); if :: n < L -> add[p] = 1; key[p] = 1 :: else -> skip fi; n = 0 }
	:: d_step { add[p] == 1 -> if :: owner == token[p] -> reserve() :: else -> finish() fi }
	:: d_step { prompt[p] -> prompt[p] = false } /* it hangs */
	:: d_step { add[p] == 2 -> add[p] = 3; s = place[p]; rec[s] = key[p] + 1; recGen[s] = use[p]; charged[key[p]] = charged[key[p]] + 1; s = 0 }
#ifdef CHECK
	:: d_step { add[p] == 3 -> admit(key[p]); finish() }
#else
	:: d_step { add[p] == 3 -> if :: prompt[p] || owner == token[p] -> admit(key[p]) :: else -> skip fi; finish() }
#endif
	/* folds: the owner's wait for its own records, those of others begin with Disown, which does as well */
	:: d_step { (phase[p] == 2 || phase[p] == 4) && again[p] == 0 && (pending || below > 0) && settled -> fold() }
	:: d_step { again[p] > 0 -> last = again[p] - 1; progress(); last = 0; again[p] = 0 }
	:: d_step { phase[p] == 2 && token[p] > 0 && owner != token[p] && idle -> token[p] = 0 } /* it was revoked */
	:: d_step { mayClaim && db[0] < L -> db[0] = db[0] + 1; charged[0] = charged[0] + 1; admit(0) } /* Store.claimLocked */
	:: d_step { mayClaim && db[1] < L -> db[1] = db[1] + 1; charged[1] = charged[1] + 1; admit(1) }
#ifdef LOCKS
	:: d_step { add[p] == 2 -> present[p] = false }
#endif
	:: d_step { phase[p] > 0 -> /* it is killed, and a write of it has landed or never does */
			elected = (elected == p + 1 -> 0 : elected); finish(); present[p] = false; phase[p] = 0; token[p] = 0; again[p] = 0 }
	od
}
init { atomic { run Process(0); run Process(1) } }
