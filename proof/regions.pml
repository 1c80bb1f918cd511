/* Counts of regions: each region has a strict store, counts what it admits by group of time, publishes a
   count when it is worth it, and lowers its limit by the largest counts that it has seen of others. Rows
   arrive late, twice and in another order; an exchange fails and loses its rows.

   Checked: when a region admits a unit, its own units in force and those that others admitted more than D
   ticks ago are at most L + L/4.

   Left out: leases in a region (its store is strict), several machines of a region, token buckets, names,
   failures that last for longer than D. A machine restarts once, and not while counts are missing in the
   exchange. It takes what its region has admitted from the store, and the counts of others from the exchange
   at once; what it admits before that is left out.

   Allows: Machines share counts by a store on a server.

   Go: limiter/region: Counts.Take, Own.Add, Own.Unpublished, Own.Published, Own.Unpublish, Groups.InForce,
   Publishes, Groups.Begins, Missing
   Go: internal/regions: key.admit, key.unpublished, key.Units, Regions.publishRows, Regions.publishAgain,
   table.apply, Regions.collect, Regions.addUntold
   Go: internal/engine: lowered, Debit.exceedsForeign, Engine.Counted

   Share: -DT=4
   Mutant: HIDE       a region hides a quarter however many others there are
   Mutant: LAST       the last count to arrive is taken, not the largest
   Mutant: MARK       a count is marked as published before the exchange has it
   Mutant: LOST       counts are not published again to an exchange that has lost them
   Mutant: DELTA      a region publishes what it has admitted since the last time
   Mutant: WHOLE      the oldest group doesn't count
   Mutant: FORGET     a machine that restarts forgets what it has not published */
#ifndef T
#define T 5 /* ticks in all */
#endif
#define L 4  /* units; a quarter is one */
#define R 2  /* regions */
#define G 3  /* ticks of a group; a window is one group, so it touches two */
#define D 3  /* ticks until all know a count */
byte now;
byte admitted[12]; /* region*T + tick */
byte own[4], published[4], row[4], seen[4], old[4]; /* region*2 + group; old: a row that arrives late */
bool turned[R], began, failed;
byte i, sum, known, n, g;

#define group(t) ((t) / G)
#define foreign(r) (1 - r)

#ifdef WHOLE
#define inForce(a, r) a[r * 2 + group(now)]
#else
#define inForce(a, r) (a[r * 2 + group(now)] + (group(now) > 0 -> a[r * 2 + group(now) - 1] : 0)) /* Groups.InForce */
#endif

inline admit(r) { /* Regions.Decide */
	known = inForce(seen, foreign(r)); sum = 0; i = (group(now) > 0 -> (group(now) - 1) * G : 0); n = i;
	do :: i <= now -> sum = sum + admitted[r * T + i]; i++ :: else -> break od; /* what its store knows */
	if
	:: sum + known < L ->
		own[r * 2 + group(now)] = own[r * 2 + group(now)] + 1;
		admitted[r * T + now] = admitted[r * T + now] + 1;
		sum++; i = n;
		do :: i + D < now -> sum = sum + admitted[foreign(r) * T + i]; i++ :: else -> break od;
		assert(sum <= L + L / 4)
	:: else -> skip
	fi;
	i = 0; sum = 0; known = 0; n = 0
}

inline publish(r) { /* key.unpublished, Regions.publishRows */
	n = inForce(own, r); known = inForce(seen, foreign(r));
	g = 0;
	do
	:: g < 2 ->
		if
#ifdef HIDE
		:: own[r * 2 + g] > published[r * 2 + g] && (known > 0 || n > L / 2) ->
#else
		:: own[r * 2 + g] > published[r * 2 + g] && (known > 0 || n > L / 4 / (R - 1)) ->
#endif
			old[r * 2 + g] = row[r * 2 + g];
#ifdef DELTA
			row[r * 2 + g] = own[r * 2 + g] - published[r * 2 + g];
#else
			row[r * 2 + g] = (own[r * 2 + g] > row[r * 2 + g] -> own[r * 2 + g] : row[r * 2 + g]);
#endif
			published[r * 2 + g] = own[r * 2 + g]
		:: else -> skip
		fi;
		g++
	:: else -> break
	od;
	g = 0; n = 0; known = 0
}
inline take(x, g, count) { /* Counts.Take: of region x in group g */
#ifdef LAST
	seen[x * 2 + g] = count
#else
	seen[x * 2 + g] = (count > seen[x * 2 + g] -> count : seen[x * 2 + g])
#endif
}

inline restart(r) { /* Regions.addUntold: memory is lost, the store is not */
	i = 0;
	do
	:: i < 2 ->
		published[r * 2 + i] = row[r * 2 + i];
#ifdef FORGET
		own[r * 2 + i] = 0; published[r * 2 + i] = 0;
#else
		own[r * 2 + i] = 0; n = i * G;
		do :: n < (i + 1) * G && n <= now -> own[r * 2 + i] = own[r * 2 + i] + admitted[r * T + n]; n++ :: else -> break od;
#endif
		seen[foreign(r) * 2 + i] = row[foreign(r) * 2 + i];
		i++
	:: else -> break
	od;
	i = 0; n = 0
}

proctype Region(byte r) {
	do
	:: d_step { true -> admit(r) }
	:: d_step { !turned[r] -> publish(r); take(foreign(r), 0, row[foreign(r) * 2 + 0]); take(foreign(r), 1, row[foreign(r) * 2 + 1]); turned[r] = true }
	:: d_step { true -> take(foreign(r), 0, old[foreign(r) * 2 + 0]); take(foreign(r), 1, old[foreign(r) * 2 + 1]) } /* a row arrives late */
#ifdef MARK
	:: d_step { !failed -> failed = true; published[r * 2 + group(now)] = own[r * 2 + group(now)] }
#endif
	:: d_step { !began && !failed -> began = true; restart(r) }
	od
}

proctype Clock() { /* each region takes its turn in each tick */
	do
	:: d_step { now + 1 < T && turned[0] && turned[1] -> now++; turned[0] = false; turned[1] = false }
	:: d_step { !failed && !turned[0] && !turned[1] -> failed = true; i = 0; /* the exchange has lost its rows */
			do :: i < 4 -> row[i] = 0; old[i] = 0;
#ifndef LOST
				published[i] = 0;
#endif
				i++
			:: else -> break od; i = 0 }
	:: break
	od
}

init { atomic { run Region(0); run Region(1); run Clock() } }
