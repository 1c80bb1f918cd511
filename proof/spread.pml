/* A lease of a sliding limit that is spread over slots: its units are charged evenly to SPAN + 1 slots, and
   spent in the order of their slots, each in its slot or earlier. A lease knows only how many units have
   lapsed. When it is given back, lapsed units and those not reached are free, and spent units of later slots
   move to the present one.

   Checked: no W+1 slots in a row have more than L admitted units, and after a lease was given back, the
   units that stay from a slot on are at least those spent from that slot on (no unit stays too early).

   Left out: what leases.pml has (calls that are lost, joins, late grants), names, sizes of leases.

   Go: limiter: Limit.grantSlots, Limit.span, Lease.before, Lease.lapsed, Lease.spentIn, Lease.Worth,
   Lease.SpendWorth, State.giveBack
   Go: internal/engine: batch.renewLocked, use.spread, body.leaseLocked, body.setLeaseLocked

   Share: -DK=3
   Mutant: LAPSE      lapsed units are spent
   Mutant: FIRST      the spent units that stay are the first ones, as if none had lapsed
   Mutant: NOTMOVED   spent units of later slots are freed when they are given back
   Mutant: NEWEST     the store doesn't count units that are charged to later slots
   Mutant: BEHIND     a machine's time may be behind the store's
   Mutant: ALL        all units are charged to the first slot */
#define L 4    /* units */
#define W 1    /* slots of a window */
#define T 6    /* slots in all */
#define SPAN 2 /* slots beside the first one */
#define M 2    /* machines */
#ifndef K
#define K 4    /* claims of all machines */
#endif
byte now, claims, used[T], adm[T];
byte units[M], at[M], spent[M], span[M], lapsed[M]; /* the leases */
byte spentAt[12]; /* of machine m in slot s, of its present lease: m*T + s */
byte i, j, sum, b0, b1, stays, est;

inline before(m, s, r) { /* Lease.before: the units charged to slots before s */
	r = (s + span[m] > at[m] -> s + span[m] - at[m] : 0);
	r = (r > span[m] + 1 -> span[m] + 1 : r);
	r = (units[m] + spent[m]) * r / (span[m] + 1)
}
inline lapse(m, t, r) { /* Lease.lapsed */
	before(m, t, r);
	r = (r > spent[m] -> r - spent[m] : 0);
	r = (lapsed[m] > r -> lapsed[m] : r)
}
inline check() {
	i = 0;
	do
	:: i + W < T ->
		sum = 0; j = i;
		do :: j <= i + W -> sum = sum + adm[j]; j++ :: else -> break od;
		assert(sum <= L); i++
	:: else -> break
	od;
	i = 0; j = 0; sum = 0
}
inline giveBack(m) { /* State.giveBack */
	i = at[m] - span[m]; sum = 0;
	do
	:: i <= at[m] ->
		before(m, i, b0); before(m, i + 1, b1);
#ifdef FIRST
		lapsed[m] = 0;
#endif
		stays = (b1 < lapsed[m] + spent[m] -> b1 : lapsed[m] + spent[m]);
		j = (b0 > lapsed[m] -> b0 : lapsed[m]);
		stays = (stays > j -> stays - j : 0); /* Lease.spentIn */
		used[i] = used[i] + b0 + stays - b1;
		if
		:: i > now ->
			used[i] = used[i] - stays;
#ifndef NOTMOVED
			used[now] = used[now] + stays
#endif
		:: else -> skip
		fi;
		sum = sum + stays; i++
	:: else -> break
	od;
	assert(sum == spent[m]); /* as many stay as were spent */
	i = at[m]; sum = 0; b0 = 0; /* from the last slot down */
	do
	:: i + 1 > at[m] - span[m] ->
		before(m, i, stays); before(m, i + 1, b1);
		j = (stays > lapsed[m] -> stays : lapsed[m]);
		b1 = (b1 < lapsed[m] + spent[m] -> b1 : lapsed[m] + spent[m]);
		sum = sum + (b1 > j -> b1 - j : 0); b0 = b0 + spentAt[m * T + i];
		assert(sum >= b0);
		if :: i == 0 -> break :: else -> i-- fi
	:: else -> break
	od;
	i = 0; do :: i < T -> spentAt[m * T + i] = 0; i++ :: else -> break od;
	units[m] = 0; at[m] = 0; spent[m] = 0; span[m] = 0; lapsed[m] = 0; i = 0; j = 0; sum = 0; b0 = 0; b1 = 0; stays = 0
}
inline grant(m, n) { /* Limit.grantSlots with Claim.Spread */
	i = (now >= W -> now - W : 0); sum = 0;
#ifdef NEWEST
	do :: i <= now -> sum = sum + used[i]; i++ :: else -> break od;
#else
	do :: i < T -> sum = sum + used[i]; i++ :: else -> break od;
#endif
	sum = (sum < L -> L - sum : 0);
	units[m] = (n < sum -> n : sum);
	if
	:: units[m] > 0 ->
		span[m] = (SPAN + 1) * units[m] / n; /* Limit.span */
		span[m] = (span[m] > 0 -> span[m] - 1 : 0);
		at[m] = now + span[m]; i = now;
		do
		:: i <= at[m] -> before(m, i, b0); before(m, i + 1, b1);
#ifdef ALL
			used[now] = used[now] + b1 - b0;
#else
			used[i] = used[i] + b1 - b0;
#endif
			i++
		:: else -> break
		od
	:: else -> skip
	fi;
	i = 0; sum = 0; b0 = 0; b1 = 0
}
inline spend(m, t) {
	lapse(m, t, b0);
	if
	:: at[m] >= t && units[m] > b0 -> /* Lease.Worth */
#ifndef LAPSE
		lapsed[m] = b0;
#else
		lapsed[m] = 0;
#endif
		units[m]--; spent[m]++; adm[now] = adm[now] + 1; spentAt[m * T + now] = spentAt[m * T + now] + 1; check()
	:: else -> skip
	fi;
	b0 = 0
}
proctype Machine(byte m) {
	do
	:: d_step { units[m] + spent[m] == 0 && claims < K && now + SPAN < T -> claims++; grant(m, 4) }
	:: d_step { units[m] + spent[m] == 0 && claims < K && now + SPAN < T -> claims++; grant(m, 3) }
	:: d_step { units[m] + spent[m] > 0 -> giveBack(m) }
	:: d_step { units[m] > 0 -> spend(m, now) }
	:: d_step { units[m] > 0 && now + 1 < T -> spend(m, now + 1) } /* its clock is ahead */
#ifdef BEHIND
	:: d_step { units[m] > 0 && now > 0 -> spend(m, now - 1) }
#endif
	od
}

proctype Clock() { do :: d_step { now + 1 < T -> now++ } :: break od }
init { atomic { run Machine(0); run Machine(1); run Clock() } }
