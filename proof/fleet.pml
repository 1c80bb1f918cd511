/* A fleet: the store may be unreachable, may lose writes that it has acknowledged, and a call may stay
   unanswered. A machine without the store spends its lease, and then a share of the limit less what it knows
   to be used. When the store is back, it is charged with these debts; one that doesn't continue the former
   one is first charged, as a floor, with what each machine knows, and leases are void.

   Checked: of their leases all machines spend at most L and what was lost. In an outage a machine admits at
   most its share, and all of them 40 % of L. A store that has lost writes of a machine knows afterwards at
   least what this machine has admitted. When all use the store, it knows all admitted units but as many as
   were lost. (Not more: units of others may stand for a floor, and be given back.)

   Left out: time (nothing expires), calls that are repeated (leases.pml), debts of a machine that crashes,
   late calls of a former session (the store rejects them).

   Allows: Degraded is less than exact; After lost data.

   Go: internal/engine: committer.degrade, committer.recover, committer.resume, committer.catchUp,
   batch.replayLocked, batch.chargeLocked, knownOf, request.decideLocallyLocked, cell.takeLocked, share.of,
   leases.undo, connection.join
   Go: limiter: Limit.Share, Charge.missing
   Go: storage/postgres/internal/store: machine.isCurrentLocked, Store.Continues, machine.register
   Go: storage/redis/internal/store: Store.Continues, Store.Lacks

   Share: -DK=4
   Mutant: NOTICE     a machine doesn't notice that its writes are lost
   Mutant: VOUCH      a store that lacks acknowledged writes passes for the former one
   Mutant: FLOOR      a store that has lost writes isn't charged with what machines know
   Mutant: DEBTS      units admitted in an outage are not charged afterwards
   Mutant: RELOAD     a reload in an outage hands out a share again
   Mutant: PART       each machine takes the share of all */
#define L 5     /* units */
#define SHARE 1 /* of one of two machines: 40 % of L is 2 */
#define M 2
#ifndef K
#define K 5     /* calls of all machines */
#endif
byte db, seq[M];         /* the store: units, and the number of the last write of each machine */
byte copied, number[M];  /* an older copy of it */
byte acked[M], units[M], used[M], debts[M], out[M], shared[M]; /* out: what a machine counts, shared: what it admitted */
byte mine[M]; /* admitted by a machine */
bool away[M], gone[M]; /* gone: its acknowledged writes are lost */
byte spent, beyond, lost, calls; /* admitted of leases, and without the store */

inline grant(m, n) {
	calls++;
	if
#ifdef NOTICE
	:: false -> away[m] = true
#else
	:: seq[m] < acked[m] -> away[m] = true /* ErrLostWrites */
#endif
	:: else ->
		db = (db > units[m] -> db - units[m] : 0);
		used[m] = used[m] - units[m];
		units[m] = (n < L - db -> n : (db < L -> L - db : 0));
		db = db + units[m]; seq[m] = seq[m] + 1;
		acked[m] = seq[m]; used[m] = db;
		assert(!gone[m] || db >= mine[m])
	fi
}
inline lose(m, n) { /* a call whose answer never comes: leases.undo */
	calls++;
	if
	:: seq[m] < acked[m] -> skip
	:: else ->
		db = (db > units[m] -> db - units[m] : 0);
		db = (n < L - db -> db + n : (db < L -> L : db)); seq[m] = seq[m] + 1
	fi;
	used[m] = used[m] - units[m]; units[m] = 0; away[m] = true
}
inline recover(m) {
#ifndef VOUCH
#ifndef NOTICE
	if
	:: seq[m] < acked[m] -> /* it doesn't continue: batch.replayLocked */
		used[m] = used[m] - units[m];
		units[m] = 0;
#ifndef FLOOR
		db = (used[m] > db -> used[m] : db)
#endif
	:: else -> skip
	fi;
#endif
#endif
#ifndef DEBTS
	db = db + debts[m];
#endif
	debts[m] = 0; seq[m] = seq[m] + 1; acked[m] = seq[m];
	used[m] = (db > units[m] -> db : units[m]);
	away[m] = false; out[m] = 0; shared[m] = 0;
	assert(!gone[m] || db >= mine[m]); gone[m] = false;
	assert(away[1 - m] || seq[1 - m] < acked[1 - m] || db + lost >= spent + beyond)
}
inline share(m) { /* cell.takeLocked */
#ifdef PART
	if
	:: used[m] + out[m] < 2 * SHARE ->
#else
	if
	:: used[m] + out[m] < SHARE ->
#endif
		out[m] = out[m] + 1; shared[m] = shared[m] + 1; debts[m] = debts[m] + 1; beyond++; mine[m] = mine[m] + 1;
		assert(shared[m] <= SHARE && shared[0] + shared[1] <= 2 * SHARE)
	:: else -> skip
	fi
}

proctype Machine(byte m) {
	do
	:: d_step { !away[m] && calls < K -> grant(m, 1) }
	:: d_step { !away[m] && calls < K -> grant(m, 3) }
	:: d_step { !away[m] && calls < K -> lose(m, 2) }
	:: d_step { units[m] > 0 -> units[m] = units[m] - 1; spent++; mine[m] = mine[m] + 1; assert(spent <= L + lost) }
	:: d_step { !away[m] && calls < K -> away[m] = true } /* committer.degrade */
	:: d_step { away[m] && units[m] == 0 -> share(m) }
#ifdef RELOAD
	:: d_step { away[m] -> out[m] = 0 }
#endif
	:: d_step { away[m] && calls < K -> calls++; recover(m) }
	od
}

proctype Store() {
	do
	:: d_step { true -> copied = db; number[0] = seq[0]; number[1] = seq[1] }
	:: d_step { lost == 0 && db > copied -> lost = lost + db - copied; db = copied; seq[0] = number[0]; seq[1] = number[1];
			gone[0] = seq[0] < acked[0]; gone[1] = seq[1] < acked[1] }
	od
}

init { atomic { run Machine(0); run Machine(1); run Store() } }
