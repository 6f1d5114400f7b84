/* What the parts of the StarPU engine share with each other and, field by field, with library.py. */

#ifndef SLIPSTREAM_ENGINE_H
#define SLIPSTREAM_ENGINE_H

#include <stdint.h>

/* A function of the lane: compiled code, which finds its first arguments at `words`, or a callback into Python. Those
   that need fewer than two numbers ignore the rest. */
struct lane_function {
    int64_t (*address)(const int64_t *words, int64_t, int64_t);
    const int64_t *words;
};

struct slipstream_lane {
    struct lane_function report;     /* (processor, time): the task of a processor has ended */
    struct lane_function set_clock;  /* (time): events up to then may be applied */
    struct lane_function decide;     /* (choices): apply them, decide what is due; returns the lane's status */
    struct lane_function running;    /* (processor): the task that it has to run, -1 if none */
    struct lane_function next_timer; /* (): time of the next event that no task reports */
    struct lane_function flush;      /* (): take over the rows of a full event log */
};

struct slipstream_run {
    int32_t workers, tasks, tiles, side;
    double *numbers;           /* tiles x side x side, each tile by rows */
    const int32_t *kernels;    /* of each task, an enumerator below */
    const int32_t *accesses;   /* tasks + 1: where the accesses of a task begin */
    const int32_t *tile;       /* of each access */
    const int32_t *mode;       /* of each access: 1 reads, 2 writes, 3 both */
    const double *expected_us; /* of each task, for schedulers of StarPU that ask for it */
    int64_t *began, *ended;    /* of each task, by CLOCK_MONOTONIC in ns */
    int64_t *dispatch_ns;      /* of each task: from the event that it waited for to the decision that starts it */
    int32_t *ran_on;           /* worker of each task */
    const struct slipstream_lane *lane; /* NULL where a scheduler of StarPU decides */
    const char *scheduler;     /* its name */
};

enum kernel {
    POTRF, TRSM, CHOLESKY_GEMM, SYRK,
    LU, FWD, BDIV, BMOD,
    GEQRT, ORMQR, TSQRT, TSMQR,
    GEMM
};

/* Number of tiles that a kernel needs as scratch space. */
#define SCRATCH_TILES 4

/* Run a kernel on n x n tiles stored by rows, in the order of the task's accesses; return 0, or LAPACK's complaint. */
int slipstream_kernel(enum kernel kernel, int n, double **tiles, double *scratch);

#endif
