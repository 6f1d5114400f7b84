/* A scheduling policy of StarPU 1.3 that asks a lane, and the run of a graph under it or under one of StarPU's own.

   The lane (families/taskgraph) is the machine as policies see it. Its clock is that of the run, and the ends of tasks
   are reported to it here. A worker that has ended a task calls `pop_task`, which reports the end; the lane then makes
   all decisions that are due, by compiled code behind function pointers, and every processor for which it has started a
   task is given that task. StarPU keeps the dependencies, the workers and the data.

   One run at a time; `lock` guards the lane and everything in `now_running` that more than one thread writes. */

#include <limits.h>
#include <pthread.h>
#include <starpu.h>
#include <starpu_scheduler.h>
#include <stdlib.h>
#include <time.h>

#include "engine.h"

#if STARPU_MAJOR_VERSION != 1 || STARPU_MINOR_VERSION != 3
#error "the headers are not those of StarPU 1.3"
#endif

extern void openblas_set_num_threads(int);

enum lane_status { ASKING, TERMINATED, TRUNCATED, LOG_FULL, PENDING }; /* as in sim/kernel/lanes.py */
enum state { RUNS, DONE, KERNEL_FAILED, LANE_FAILED };                 /* what slipstream_wait returns */

#define NONE (-1)
#define NEVER (INT64_C(1) << 62)
#define NO_LIMIT NEVER

static struct {
    const struct slipstream_run *run;
    const struct slipstream_lane *lane;
    struct starpu_task **ready;    /* by task: pushed and not yet begun */
    starpu_data_handle_t *handles; /* by tile */
    double *scratch;               /* by worker */
    _Atomic int32_t *assigned;     /* by worker: task that it has to begin next */
    int32_t *given;                /* by worker: last task that was assigned to it */
    int32_t *unreported;           /* by worker: task whose end the lane does not know; written by the worker alone */
    int64_t zero;                  /* when the lane's clock began */
    int64_t timer;                 /* when the lane has an event that no task reports */
    int32_t finished;
    int32_t failed_task;
    enum state state;
    _Atomic int cancelled;         /* tasks do nothing any more */
    _Atomic int begun;
} now_running;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Lock as a policy has to: other workers may meanwhile look at the state of this one. */
static void lock_in_policy(void)
{
    starpu_worker_relax_on();
    pthread_mutex_lock(&lock);
    starpu_worker_relax_off();
}

static int64_t call(struct lane_function function, int64_t first, int64_t second)
{
    return function.address(function.words, first, second);
}

static void cancel(enum state state)
{
    now_running.cancelled = 1;
    if (now_running.state == RUNS)
        now_running.state = state;
    pthread_cond_broadcast(&changed);
}

/* Let the lane decide everything that is due; `due` is when its latest event was heard of. */
static void advance(int64_t due)
{
    const struct slipstream_lane *lane = now_running.lane;
    int64_t status;
    call(lane->set_clock, now() - now_running.zero, 0);
    while ((status = call(lane->decide, NO_LIMIT, 0)) == LOG_FULL)
        if (call(lane->flush, 0, 0) < 0) {
            cancel(LANE_FAILED);
            return;
        }
    if (status == TERMINATED || status == TRUNCATED) {
        now_running.state = DONE;
        pthread_cond_broadcast(&changed);
        return;
    }
    if (status != PENDING) {
        cancel(LANE_FAILED);
        return;
    }
    const int64_t decided = now();
    for (int worker = 0; worker < now_running.run->workers; worker++) {
        const int64_t task = call(lane->running, worker, 0);
        if (task == NONE || task == now_running.given[worker])
            continue;
        now_running.assigned[worker] = now_running.given[worker] = (int32_t)task;
        now_running.run->dispatch_ns[task] = decided - due;
    }
    const int64_t timer = call(lane->next_timer, 0, 0);
    const int64_t moment = timer >= NEVER ? NEVER : now_running.zero + timer;
    if (moment < now_running.timer)
        pthread_cond_broadcast(&changed); /* the main thread waits for a later one */
    now_running.timer = moment;
}

/* Wake all workers but `self` that have a task to begin; without the lock, which they need. */
static void wake(int self)
{
    for (int worker = 0; worker < now_running.run->workers; worker++)
        if (worker != self && (now_running.cancelled || now_running.assigned[worker] != NONE))
            starpu_wake_worker_relax_light(worker);
}

static void init_policy(unsigned context) { (void)context; }

static int push_task(struct starpu_task *task)
{
    lock_in_policy();
    now_running.ready[(intptr_t)task->cl_arg] = task;
    starpu_push_task_end(task);
    pthread_mutex_unlock(&lock);
    wake(starpu_worker_get_id());
    return 0;
}

static struct starpu_task *take(int32_t task)
{
    struct starpu_task *found = now_running.ready[task];
    now_running.ready[task] = NULL;
    return found;
}

static struct starpu_task *pop_task(unsigned context)
{
    struct starpu_task *found = NULL;
    const int worker = starpu_worker_get_id();
    const int64_t due = now();
    int asked = 0;
    (void)context;
    if (!now_running.begun || worker < 0)
        return NULL;
    lock_in_policy();
    if (now_running.cancelled) {
        for (int32_t task = 0; task < now_running.run->tasks && !found; task++)
            found = take(task);
    } else {
        const int32_t ended = now_running.unreported[worker];
        if (ended != NONE) {
            now_running.unreported[worker] = NONE;
            call(now_running.lane->report, worker, now_running.run->ended[ended] - now_running.zero);
            advance(due);
            asked = 1;
        }
        const int32_t task = now_running.assigned[worker];
        /* The lane may be ahead of StarPU, which has yet to push the task: then it is taken a little later. */
        if (task != NONE && (found = take(task)) != NULL)
            now_running.assigned[worker] = NONE;
    }
    pthread_mutex_unlock(&lock);
    if (asked)
        wake(worker);
    return found;
}

static struct starpu_sched_policy policy = {
    .init_sched = init_policy,
    .deinit_sched = init_policy,
    .push_task = push_task,
    .pop_task = pop_task,
    .policy_name = "slipstream",
    .policy_description = "a policy of Slipstream, asked through a function pointer",
    .worker_type = STARPU_WORKER_LIST,
};

static void run_task(void *buffers[], void *argument)
{
    const struct slipstream_run *run = now_running.run;
    const intptr_t task = (intptr_t)argument;
    const int worker = starpu_worker_get_id();
    double *tiles[STARPU_NMAXBUFS];
    int info = 0;
    for (int32_t access = run->accesses[task]; access < run->accesses[task + 1]; access++)
        tiles[access - run->accesses[task]] =
            (double *)STARPU_VARIABLE_GET_PTR(buffers[access - run->accesses[task]]);
    run->ran_on[task] = worker;
    run->began[task] = now();
    if (!now_running.cancelled)
        info = slipstream_kernel(run->kernels[task], run->side, tiles,
                                 now_running.scratch + (size_t)worker * SCRATCH_TILES * run->side * run->side);
    run->ended[task] = now();
    now_running.unreported[worker] = (int32_t)task;
    pthread_mutex_lock(&lock);
    now_running.finished++;
    if (info) {
        now_running.failed_task = (int32_t)task;
        cancel(KERNEL_FAILED);
    }
    if (now_running.lane == NULL && now_running.finished == run->tasks && now_running.state == RUNS) {
        now_running.state = DONE;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
}

static double expected_us(struct starpu_task *task, struct starpu_perfmodel_arch *processor, unsigned implementation)
{
    (void)processor, (void)implementation;
    return now_running.run->expected_us[(intptr_t)task->cl_arg];
}

static struct starpu_perfmodel model = {.type = STARPU_PER_ARCH, .arch_cost_function = expected_us};

static struct starpu_codelet codelet = {
    .where = STARPU_CPU,
    .cpu_funcs = {run_task},
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &model,
    .name = "slipstream",
};

static int submit(int32_t number)
{
    const struct slipstream_run *run = now_running.run;
    struct starpu_task *task = starpu_task_create();
    task->cl = &codelet;
    task->cl_arg = (void *)(intptr_t)number;
    task->nbuffers = run->accesses[number + 1] - run->accesses[number];
    for (int place = 0; place < task->nbuffers; place++) {
        const int32_t access = run->accesses[number] + place;
        task->handles[place] = now_running.handles[run->tile[access]];
        task->modes[place] = run->mode[access] == 1 ? STARPU_R : run->mode[access] == 2 ? STARPU_W : STARPU_RW;
    }
    return starpu_task_submit(task);
}

static void free_all(void)
{
    free(now_running.ready);
    free(now_running.handles);
    free(now_running.scratch);
    free(now_running.assigned);
    free(now_running.given);
    free(now_running.unreported);
}

static int allocate(const struct slipstream_run *run)
{
    const size_t tile = (size_t)run->side * run->side;
    now_running.ready = calloc(run->tasks, sizeof *now_running.ready);
    now_running.handles = calloc(run->tiles, sizeof *now_running.handles);
    now_running.scratch = calloc(run->workers * SCRATCH_TILES * tile, sizeof(double));
    now_running.assigned = malloc(run->workers * sizeof *now_running.assigned);
    now_running.given = malloc(run->workers * sizeof(int32_t));
    now_running.unreported = malloc(run->workers * sizeof(int32_t));
    return now_running.ready && now_running.handles && now_running.scratch && now_running.assigned &&
           now_running.given && now_running.unreported;
}

/* Start StarPU on as many CPU workers as the run has, and submit its tasks, none of which begins yet.
   Return the number of workers; 0 if the system has no memory, a negative number of errno if StarPU does not start. */
int slipstream_open(const struct slipstream_run *run)
{
    struct starpu_conf conf;
    pthread_condattr_t by_monotonic_clock;
    int error;
    now_running.run = run;
    now_running.lane = run->lane;
    now_running.zero = 0;
    now_running.timer = NEVER;
    now_running.finished = 0;
    now_running.cancelled = now_running.begun = 0;
    now_running.failed_task = NONE;
    now_running.state = RUNS;
    if (!allocate(run)) {
        free_all();
        return 0;
    }
    for (int worker = 0; worker < run->workers; worker++) {
        now_running.given[worker] = now_running.unreported[worker] = NONE;
        now_running.assigned[worker] = NONE;
    }
    pthread_condattr_init(&by_monotonic_clock);
    pthread_condattr_setclock(&by_monotonic_clock, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &by_monotonic_clock);
    pthread_condattr_destroy(&by_monotonic_clock);
    openblas_set_num_threads(1);
    starpu_conf_init(&conf);
    conf.precedence_over_environment_variables = 1;
    conf.ncpus = run->workers;
    conf.ncuda = conf.nopencl = conf.nmic = conf.nmpi_ms = 0;
    conf.catch_signals = 0;
    if (run->lane != NULL)
        conf.sched_policy = &policy;
    else
        conf.sched_policy_name = run->scheduler;
    if ((error = starpu_init(&conf)) != 0) {
        pthread_cond_destroy(&changed);
        free_all();
        return error;
    }
    starpu_pause();
    for (int32_t tile = 0; tile < run->tiles; tile++)
        starpu_variable_data_register(&now_running.handles[tile], STARPU_MAIN_RAM,
                                      (uintptr_t)(run->numbers + (size_t)tile * run->side * run->side),
                                      sizeof(double) * run->side * run->side);
    return (int)starpu_cpu_worker_get_count();
}

/* Submit all tasks and start the clock; return when it started, or a negative number of errno. */
int64_t slipstream_begin(void)
{
    int error;
    for (int32_t task = 0; task < now_running.run->tasks; task++)
        if ((error = submit(task)) != 0)
            return error;
    pthread_mutex_lock(&lock);
    now_running.zero = now();
    if (now_running.lane != NULL)
        advance(now_running.zero);
    now_running.begun = 1;
    pthread_mutex_unlock(&lock);
    starpu_resume();
    wake(NONE);
    return now_running.zero;
}

/* Wait until the run ends or the time `until` has come, and apply the lane's own events when they are due. */
int slipstream_wait(int64_t until)
{
    pthread_mutex_lock(&lock);
    while (now_running.state == RUNS && !now_running.cancelled && now() < until) {
        if (now() >= now_running.timer) {
            advance(now());
            pthread_mutex_unlock(&lock);
            wake(NONE);
            pthread_mutex_lock(&lock);
            continue;
        }
        const int64_t moment = until < now_running.timer ? until : now_running.timer;
        const struct timespec time = {moment / 1000000000, moment % 1000000000};
        pthread_cond_timedwait(&changed, &lock, &time);
    }
    const int state = now_running.state;
    pthread_mutex_unlock(&lock);
    return state;
}

/* Have tasks that have not begun do nothing. */
void slipstream_cancel(void)
{
    pthread_mutex_lock(&lock);
    now_running.cancelled = 1;
    pthread_mutex_unlock(&lock);
    wake(NONE);
}

/* Wait for the tasks that are left, stop StarPU and free everything; return the task whose kernel failed, or -1. */
int slipstream_close(void)
{
    if (!now_running.begun) { /* an error before the clock started */
        now_running.cancelled = now_running.begun = 1;
        starpu_resume();
    }
    starpu_task_wait_for_all();
    for (int32_t tile = 0; tile < now_running.run->tiles; tile++)
        starpu_data_unregister(now_running.handles[tile]);
    starpu_shutdown();
    pthread_cond_destroy(&changed);
    free_all();
    return now_running.failed_task;
}
