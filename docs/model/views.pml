/* Changes of view: how a coordinator and up to four nodes go from one graph to the next.
 *
 * A model to be checked by Spin, not a program. What it stands for, what it leaves out and how to
 * run it is in README.md. Every option of a loop below is one step that cannot be interrupted.
 *
 * Sizes and budgets, to be set with -D: N nodes, T rounds, and how often in one run a node may
 * crash, return, be dropped though it lives, a message to or from the coordinator be lost or be
 * repeated without need, and the coordinator itself be restarted.
 *
 * Nodes are alike: whatever happens to some of them would happen under other names to others. So
 * the first ones are those that crash, and those after them lose messages, are dropped or hear
 * things twice; all other executions are these with the names changed. -DANY_NAME goes through
 * them as well.
 *
 * Mutants, to show that the model can fail (-DNAME): NO_RAISE, KEEP_NOISE, GOES_ON, REENTER,
 * SAME_VIEW, STATELESS, NO_REPEAT, FORGETS, LATE_GUEST, LEAVES_EARLY, ANY_PROCESS.
 */
#ifndef N
#define N 3
#endif
#ifndef T
#define T 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef RETURNS
#define RETURNS 1
#endif
#ifndef DROPS
#define DROPS 0
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef REPEATS
#define REPEATS 0
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifdef ANY_NAME
#define MAY_CRASH(i) true
#define MAY_MISS(i) true
#else
#define MAY_CRASH(i) ((i) < CRASHES)
#define MAY_MISS(i) ((i) < CRASHES + DROPS + LOSSES + REPEATS)
#endif
#define MIN 2      /* with fewer members there is nobody to learn with */
#define NONE 255   /* no state, no instance */
/* Every change has a cause, and every cause is counted: a crash may be noticed, a return too. */
#define EPOCHS (2 + CRASHES + RETURNS + DROPS + RESTARTS * (1 + RETURNS))

#define BIT(j) (1 << (j))
#if N == 2
#define EVERY(P, i) (P(i,0) && P(i,1))
#define TOTAL(P, i) (P(i,0) + P(i,1))
#define EVERYONE 3
#elif N == 3
#define EVERY(P, i) (P(i,0) && P(i,1) && P(i,2))
#define TOTAL(P, i) (P(i,0) + P(i,1) + P(i,2))
#define EVERYONE 7
#else
#define EVERY(P, i) (P(i,0) && P(i,1) && P(i,2) && P(i,3))
#define TOTAL(P, i) (P(i,0) + P(i,1) + P(i,2) + P(i,3))
#define EVERYONE 15
#endif

/* ---- nodes ---- */
#define FRESH 0    /* a process without a plan: says hello */
#define RUN 1
#define HALTED 2
#define ENTER 3    /* greets, exchanges seeds; a newcomer also takes its neighbours' model */
#define DONE 4     /* all rounds are done; stays for the others until it is told that all are */
#define ENDED 5    /* was told why */
#define DEAD 6
byte st[N];        /* which of these */
byte ep[N];        /* epoch that it runs in or enters */
byte seen[N];      /* largest epoch that it has heard of */
byte t[N];         /* rounds done: its last boundary */
byte mem[N];       /* members of its view */
byte elders[N];    /* those of them that have a state */
bool has[N];       /* it has a state of its own */
byte inst[N];      /* which process of this id it is */
short noise[N];    /* noise that is in its gamma, in distinguishable units */

/* What neighbours can have from a node: links between nodes deliver (numbers, Taken, Ask), so that
 * all that was sent in an epoch stands here until the sender goes on to another. */
byte pe[N];        /* epoch of what it has sent */
byte pr[N];        /* states of all rounds below this one are sent; its seeds in any case */

/* ---- messages on the coordinator's links: one place for each kind, 0 is none ---- */
byte to_halt[N];   /* Halt(epoch) */
byte to_view[N];   /* NextView(epoch, ...) */
byte view_mem[N];
byte view_eld[N];
byte view_first[N];
bool to_stop[N];   /* Stop(reason), or: all are done */
byte hello[N];     /* Hello(instance), plus one */
byte halted[N];    /* Halted(epoch, round) */
byte halted_t[N];
byte finished[N];  /* Done(epoch) */

/* ---- coordinator ---- */
#define WATCH 0
#define HALTING 1
#define OVER 2
byte phase = WATCH;
byte ce = 1;       /* epoch */
byte cm = EVERYONE;/* members that it still counts on, and those that want to be */
byte got = 0;      /* halted so far */
byte old = EVERYONE; /* those of them with a state */
byte top = 0;      /* largest round of those */
byte done = 0;
byte known[N];     /* instance that it knows */
byte made = 1;     /* last epoch for which there is a view */
bool failed = false;

/* ---- what the invariants need to remember ---- */
byte all_mem[EPOCHS + 1];    /* the view of each epoch */
byte all_first[EPOCHS + 1];
byte last_e[N];    /* last pad that was used: (epoch, round + 1) */
byte last_r[N];

/* ---- budgets ---- */
byte crashes = CRASHES;
byte returns = RETURNS;
byte drops = DROPS;
byte losses = LOSSES;
byte repeats = REPEATS;
byte restarts = RESTARTS;

/* The coordinator answers on the connection that a process made: what it sends reaches that process
 * and none that comes after it under the same id. */
#ifdef ANY_PROCESS
#define ROUTE(i) true
#else
#define ROUTE(i) (known[i] == inst[i])
#endif
#define LIVES(i) (st[i] != DEAD && st[i] != ENDED)
#define QUIET(x, i) (st[i] == DEAD || st[i] == ENDED)
#define ALL_OVER (phase == OVER && EVERY(QUIET, 0))
#define IN(set, i) (((set) & BIT(i)) != 0)

#define SEEDED(i, j) (!IN(mem[i], j) || pe[j] == ep[i])
#define SENT(i, j) (!IN(mem[i], j) || (pe[j] == ep[i] && pr[j] > t[i]))
#define TAUGHT(i, j) (!IN(elders[i], j) || (pe[j] == ep[i] && pr[j] > t[i]))

/* Noise of a pair: what one end adds the other takes away. Powers of five, as no sum of a few
 * rounds of some pairs is then zero by chance. */
#define PAIR(a, b) ((a) + (b) == 1 -> 1 : ((a) + (b) == 2 -> 5 : ((a) + (b) == 5 -> 625 : \
    ((a) + (b) == 4 -> 125 : ((a) == 0 || (b) == 0 -> 3125 : 25)))))
#define SHARE(i, j) (!IN(mem[i], j) || (i) == (j) -> 0 : ((i) < (j) -> PAIR(i, j) : -PAIR(i, j)))

/* In step: all members of i's view are in it and have sent the same rounds. */
#define LEVEL(i, j) (!IN(mem[i], j) || (LIVES(j) && ep[j] == ep[i] && pe[j] == ep[i] && \
    pr[j] == pr[i] && (st[j] == RUN || st[j] == DONE)))
#define HELD(i, j) (IN(mem[i], j) -> noise[j] : 0)

inline count_members(set, number) {
    number = (set & 1) + ((set >> 1) & 1) + ((set >> 2) & 1) + ((set >> 3) & 1)
}

/* State of round t[i] goes out: the pad (edges of i, epoch, round) is used, now and never again. */
inline send_state(i) {
    assert(ep[i] >= seen[i]);                 /* nobody sends in an old epoch */
    assert(ep[i] > last_e[i] || (ep[i] == last_e[i] && t[i] + 1 > last_r[i]));
    assert(has[i]);
    last_e[i] = ep[i]; last_r[i] = t[i] + 1;
    noise[i] = noise[i] + TOTAL(SHARE, i);
    pe[i] = ep[i]; pr[i] = t[i] + 1;
    /* Where all are at the same point, noise sums to zero. */
    assert(!EVERY(LEVEL, i) || TOTAL(HELD, i) == 0)
}

inline clear_view(i) {
    to_view[i] = 0; view_mem[i] = 0; view_eld[i] = 0; view_first[i] = 0
}

inline die(i) {
    st[i] = DEAD; has[i] = false; noise[i] = 0; t[i] = 0; ep[i] = 0; seen[i] = 0; mem[i] = 0;
    elders[i] = 0; to_halt[i] = 0; clear_view(i); to_stop[i] = false
}

inline enter(i) {
    /* One view in one epoch, and only members enter it. */
    assert(view_mem[i] == all_mem[to_view[i]] && view_first[i] == all_first[to_view[i]]);
    assert(IN(view_mem[i], i));
    /* Who is counted as having a state has one. */
    assert(!IN(view_eld[i], i) || has[i]);
    ep[i] = to_view[i]; seen[i] = to_view[i];
    mem[i] = view_mem[i]; elders[i] = view_eld[i];
    assert(!has[i] || view_first[i] >= t[i]); /* no round is done again */
    t[i] = view_first[i];
#ifndef KEEP_NOISE
    noise[i] = 0;                             /* gamma <- mean gradient */
#endif
    pe[i] = ep[i]; pr[i] = t[i];              /* seeds go out */
    clear_view(i);
    st[i] = ENTER
}

inline answer_halt(i) {
    halted[i] = to_halt[i];
    halted_t[i] = (has[i] -> t[i] : NONE);
    to_halt[i] = 0
}

proctype Node(byte i) {
    do
    /* Also to a new coordinator that does not know it, whatever it is doing. */
    :: d_step { LIVES(i) && hello[i] == 0 && known[i] != inst[i] && phase != OVER ->
        hello[i] = inst[i] + 1 }
    /* Rounds. */
    :: d_step { st[i] == RUN && t[i] < T && pr[i] == t[i] -> send_state(i) }
    :: d_step { st[i] == RUN && t[i] < T && pr[i] > t[i] && EVERY(SENT, i) -> t[i] = t[i] + 1 }
    :: d_step { st[i] == RUN && t[i] == T -> finished[i] = ep[i];
#ifdef LEAVES_EARLY
        st[i] = DEAD
#else
        st[i] = DONE
#endif
        }
    :: d_step { st[i] == DONE && finished[i] == 0 && !IN(done, i) && phase == WATCH && ep[i] == ce ->
        finished[i] = ep[i] }                 /* said again, as it was lost */
    /* A change of view. */
    :: d_step { LIVES(i) && to_halt[i] > seen[i] ->
        seen[i] = to_halt[i];
        if
        :: st[i] == RUN && pr[i] > t[i] -> noise[i] = noise[i] - TOTAL(SHARE, i)
        :: else
        fi;
#ifndef GOES_ON
        st[i] = HALTED;
#else
        if
        :: st[i] == RUN && has[i]             /* answers, but does not stop */
        :: else -> st[i] = HALTED
        fi;
#endif
        answer_halt(i) }
    :: d_step { LIVES(i) && to_halt[i] != 0 && to_halt[i] <= seen[i] ->
        if
        :: to_halt[i] == seen[i] && st[i] == HALTED -> answer_halt(i)
        :: else -> to_halt[i] = 0
        fi }
    :: d_step { LIVES(i) && to_view[i] != 0 ->
        if
        :: (st[i] == HALTED || st[i] == FRESH) && to_view[i] >= seen[i] -> enter(i)
#ifdef REENTER
        :: (st[i] == RUN || st[i] == ENTER) && to_view[i] == ep[i] -> t[i] = view_first[i]; enter(i)
#endif
        :: else -> clear_view(i)
        fi }
    :: d_step { st[i] == ENTER && EVERY(SEEDED, i) && (has[i] || EVERY(TAUGHT, i)) ->
        has[i] = true; st[i] = RUN }
    /* The end. */
    :: d_step { LIVES(i) && to_stop[i] -> st[i] = ENDED; to_stop[i] = false }
    :: ALL_OVER -> break
    od
}

/* A view without those that are lost begins with a new epoch and a halt. */
inline begin_change() {
#ifdef NO_RAISE
    ce = (ce == 1 -> 2 : ce);
#else
    ce = ce + 1;
#endif
    assert(ce <= EPOCHS);
    phase = HALTING; got = 0; old = 0; top = 0; done = 0;
    for (k : 0 .. N - 1) {
        if
        :: IN(cm, k) && ROUTE(k) -> to_halt[k] = ce
        :: else
        fi
    }
    k = 0
}

inline stop_all() {
    phase = OVER; cm = 0; got = 0; old = 0; top = 0; done = 0;
    for (k : 0 .. N - 1) { to_stop[k] = LIVES(k) && ROUTE(k) }
    k = 0
}

inline send_view(i) {
    to_view[i] = ce; view_mem[i] = all_mem[ce]; view_eld[i] = old; view_first[i] = all_first[ce]
}

inline make_view() {
    /* Whoever has no state needs one round at least to take it from the others. */
#ifdef LATE_GUEST
    members = cm;
#else
    members = (top < T -> cm : old);
#endif
    count_members(members, number);
    if
    :: old == 0 || number < MIN -> failed = true; stop_all()
    :: else ->
        assert(ce != made || (all_mem[ce] == members && all_first[ce] == top));
        made = ce; all_mem[ce] = members; all_first[ce] = top;
        cm = members; got = 0; phase = WATCH;
        for (k : 0 .. N - 1) {
            if
            :: IN(members, k) && ROUTE(k) -> send_view(k)
            :: else
            fi
        }
        k = 0; top = 0
    fi;
    members = 0; number = 0
}

#define LOST_HALT(i) (phase == HALTING && IN(cm, i) && !IN(got, i) && LIVES(i) && ROUTE(i) && \
    to_halt[i] == 0 && halted[i] != ce)
#define LOST_VIEW(i) (phase == WATCH && ce > 1 && IN(cm, i) && to_view[i] == 0 && \
    (st[i] == HALTED || st[i] == FRESH) && ROUTE(i))
#define LOST_STOP(i) (LIVES(i) && !IN(cm, i) && !to_stop[i] && \
    (phase == OVER || known[i] == inst[i]))

/* What the coordinator does about node i; what it does about all of them is in Coordinator. */
proctype Desk(byte i) {
    byte k;
    do
    /* It came: for the first time, or again under an id that counts as there. */
    :: d_step { phase != OVER && hello[i] != 0 ->
        if
        :: hello[i] - 1 == known[i]           /* it has only not got its plan yet */
#ifdef SAME_VIEW
        :: hello[i] - 1 != known[i] && phase == WATCH && IN(cm, i) ->
            known[i] = hello[i] - 1; send_view(i); view_eld[i] = old & ~BIT(i)
#endif
        :: else ->
            known[i] = hello[i] - 1;
            halted[i] = 0; halted_t[i] = 0; finished[i] = 0; /* of the process before it */
            cm = cm | BIT(i); begin_change()  /* newcomers are halted like all others */
        fi;
        hello[i] = 0 }
    /* That it is gone is noticed, at some time. */
    :: d_step { phase != OVER && !LIVES(i) && IN(cm, i) -> cm = cm & ~BIT(i); begin_change() }
    /* Its answers; those of another epoch count for nothing. */
    :: d_step { halted[i] != 0 ->
        if
        :: phase == HALTING && halted[i] == ce && IN(cm, i) ->
            got = got | BIT(i);
            if
            :: halted_t[i] != NONE -> old = old | BIT(i);
                top = (halted_t[i] > top -> halted_t[i] : top)
#ifdef STATELESS
            :: halted_t[i] == NONE -> old = old | BIT(i)
#endif
            :: else
            fi
        :: else
        fi;
        halted[i] = 0; halted_t[i] = 0 }
    :: d_step { finished[i] != 0 ->
        if
        :: phase == WATCH && finished[i] == ce && IN(cm, i) -> done = done | BIT(i)
        :: else
        fi;
        finished[i] = 0 }
    /* What got lost is said again. That it got lost is known here and not there: there a second
     * goes by, and sometimes it is said again without need (World). */
#ifndef NO_REPEAT
    :: d_step { LOST_HALT(i) -> to_halt[i] = ce }
    :: d_step { LOST_VIEW(i) -> send_view(i) }
    :: d_step { LOST_STOP(i) -> to_stop[i] = true }
#endif
    :: ALL_OVER -> break
    od
}

proctype Coordinator() {
    byte k, members, number;
    do
    :: d_step { phase == HALTING && got == cm -> make_view() }
    :: d_step { phase == WATCH && done == cm -> stop_all() }
    :: d_step { restarts > 0 && phase != OVER ->
        restarts = restarts - 1;
        /* It reads the epoch and the members from its disk, and has forgotten all else. */
        for (k : 0 .. N - 1) {
            if
            :: st[k] == FRESH -> known[k] = NONE
            :: else
            fi
        }
#ifdef FORGETS
        /* It asks the nodes in which epoch they run. */
        ce = 0;
        for (k : 0 .. N - 1) {
            if
            :: LIVES(k) && IN(cm, k) && ep[k] > ce -> ce = ep[k]
            :: else
            fi
        }
#endif
        begin_change() }
    :: ALL_OVER -> break
    od
}

#define CAN_LOSE(i) (MAY_MISS(i) && losses > 0)

/* What happens to node i and its link to the coordinator, as often as the budgets allow. */
proctype World(byte i) {
    byte k;
    do
    :: d_step { MAY_CRASH(i) && crashes > 0 && LIVES(i) -> crashes = crashes - 1; die(i) }
    :: d_step { MAY_CRASH(i) && crashes > 0 && LIVES(i) && pe[i] != 0 ->
        crashes = crashes - 1; die(i); pe[i] = 0; pr[i] = 0 } /* with what was on its way */
    :: d_step { returns > 0 && st[i] == DEAD && phase != OVER ->
        returns = returns - 1; inst[i] = inst[i] + 1; st[i] = FRESH;
#ifndef ANY_PROCESS
        to_halt[i] = 0; clear_view(i); to_stop[i] = false
#endif
        }
    :: d_step { MAY_MISS(i) && drops > 0 && phase != OVER && IN(cm, i) && LIVES(i) ->
        drops = drops - 1; cm = cm & ~BIT(i); to_stop[i] = ROUTE(i); begin_change() }
    :: d_step { CAN_LOSE(i) && to_halt[i] != 0 -> losses = losses - 1; to_halt[i] = 0 }
    :: d_step { CAN_LOSE(i) && to_view[i] != 0 -> losses = losses - 1; clear_view(i) }
    :: d_step { CAN_LOSE(i) && to_stop[i] -> losses = losses - 1; to_stop[i] = false }
    :: d_step { CAN_LOSE(i) && hello[i] != 0 -> losses = losses - 1; hello[i] = 0 }
    :: d_step { CAN_LOSE(i) && halted[i] != 0 ->
        losses = losses - 1; halted[i] = 0; halted_t[i] = 0 }
    :: d_step { CAN_LOSE(i) && finished[i] != 0 -> losses = losses - 1; finished[i] = 0 }
    :: d_step { MAY_MISS(i) && repeats > 0 && phase == HALTING && IN(cm, i) && to_halt[i] == 0 &&
        ROUTE(i) ->
        repeats = repeats - 1; to_halt[i] = ce }
    :: d_step { MAY_MISS(i) && repeats > 0 && phase == WATCH && ce > 1 && IN(cm, i) &&
        to_view[i] == 0 && ROUTE(i) ->
        repeats = repeats - 1; send_view(i) }
    /* Nothing more happens: what waits for a mishap that does not come is stuck, and seen so. */
    :: d_step { i == 0 && crashes + returns + drops + losses + repeats + restarts > 0 ->
        crashes = 0; returns = 0; drops = 0; losses = 0; repeats = 0; restarts = 0 }
    :: ALL_OVER -> break
    od
}

init {
    byte i;
    d_step {
        all_mem[1] = EVERYONE;
        for (i : 0 .. N - 1) {
            st[i] = RUN; ep[i] = 1; seen[i] = 1; mem[i] = EVERYONE; elders[i] = EVERYONE;
            has[i] = true; pe[i] = 1
        }
        i = 0
    }
    atomic {
        for (i : 0 .. N - 1) { run Node(i); run Desk(i); run World(i) }
        run Coordinator();
        i = 0
    }
}
