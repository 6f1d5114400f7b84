/* Kernels of tiled linear algebra on tiles stored by rows.

   BLAS and LAPACK read matrices by columns, so they see the transpose of every tile. Where that is what a product or a
   triangular solve can do without, the operation is written for the transposed matrices; else the tile is transposed
   before and after. Each kernel computes what the function of the same name in families/taskgraph/engine/tiles.py
   does. */

#include <string.h>

#include "engine.h"

extern void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
                   const int *, const double *, const int *, const double *, double *, const int *);
extern void dsyrk_(const char *, const char *, const int *, const int *, const double *, const double *, const int *,
                   const double *, double *, const int *);
extern void dtrsm_(const char *, const char *, const char *, const char *, const int *, const int *, const double *,
                   const double *, const int *, double *, const int *);
extern void dpotrf_(const char *, const int *, double *, const int *, int *);
extern void dgetrf_(const int *, const int *, double *, const int *, int *, int *);
extern void dgeqrf_(const int *, const int *, double *, const int *, double *, double *, const int *, int *);
extern void dorgqr_(const int *, const int *, const int *, double *, const int *, const double *, double *, const int *,
                    int *);
extern void dtpqrt_(const int *, const int *, const int *, const int *, double *, const int *, double *, const int *,
                    double *, const int *, double *, int *);

static void multiply(const char *left, const char *right, int n, double factor, const double *a, const double *b,
                     double keep, double *c)
{
    dgemm_(left, right, &n, &n, &n, &factor, a, &n, b, &n, &keep, c, &n);
}

static void solve(const char *side, const char *triangle, const char *transposed, const char *diagonal, int n,
                  const double *a, double *b)
{
    const double one = 1.0;
    dtrsm_(side, triangle, transposed, diagonal, &n, &n, &one, a, &n, b, &n);
}

static void transpose(int n, const double *from, double *to)
{
    for (int row = 0; row < n; row++)
        for (int column = 0; column < n; column++)
            to[(size_t)column * n + row] = from[(size_t)row * n + column];
}

static int cholesky(int n, double *a)
{
    int info;
    dpotrf_("U", &n, a, &n, &info);
    return info;
}

static void subtract_square(int n, const double *a, double *c)
{
    const double factor = -1.0, keep = 1.0;
    dsyrk_("U", "T", &n, &n, &factor, a, &n, &keep, c, &n);
}

/* Factorise without exchanging rows, which a matrix with a dominant diagonal does not need. */
static int lu(int n, double *a, double *scratch)
{
    int info, *pivots = (int *)(scratch + (size_t)n * n);
    transpose(n, a, scratch);
    dgetrf_(&n, &n, scratch, &n, pivots, &info);
    for (int row = 0; row < n && !info; row++)
        if (pivots[row] != row + 1)
            info = row + 1;
    transpose(n, scratch, a);
    return info;
}

/* Leave R in the first tile, and Q, written out, in the second. */
static int qr(int n, double *a, double *q, double *scratch)
{
    const size_t size = (size_t)n * n;
    double *factors = scratch, *tau = scratch + size, *work = scratch + 2 * size;
    const int work_size = n * n;
    int info;
    transpose(n, a, factors);
    dgeqrf_(&n, &n, factors, &n, tau, work, &work_size, &info);
    if (info)
        return info;
    for (int row = 0; row < n; row++)
        for (int column = 0; column < n; column++)
            a[(size_t)row * n + column] = column < row ? 0.0 : factors[(size_t)column * n + row];
    dorgqr_(&n, &n, &n, factors, &n, tau, work, &work_size, &info);
    transpose(n, factors, q);
    return info;
}

/* C := Q'C. */
static void apply_q(int n, const double *q, double *c, double *scratch)
{
    memcpy(scratch, c, sizeof(double) * n * n);
    multiply("N", "T", n, 1.0, scratch, q, 0.0, c);
}

/* Factorise a triangle on top of a square; the square then holds the reflectors below the unit part. */
static int qr_pair(int n, double *top, double *bottom, double *scratch)
{
    const size_t size = (size_t)n * n;
    const int none = 0;
    double *triangle = scratch, *square = scratch + size, *factors = scratch + 2 * size, *work = scratch + 3 * size;
    int info;
    transpose(n, top, triangle);
    transpose(n, bottom, square);
    dtpqrt_(&n, &n, &none, &n, triangle, &n, square, &n, factors, &n, work, &info);
    for (int row = 0; row < n; row++)
        for (int column = 0; column < n; column++)
            top[(size_t)row * n + column] = column < row ? 0.0 : triangle[(size_t)column * n + row];
    transpose(n, square, bottom);
    return info;
}

/* Apply the reflectors V of `qr_pair` to two tiles; the triangle T of Q = 1 - V T V' follows from V'V = 1/T + 1/T'. */
static void apply_pair(int n, const double *v, double *top, double *bottom, double *scratch)
{
    const size_t size = (size_t)n * n;
    const double one = 1.0;
    double *inverse = scratch, *change = scratch + size;
    memset(inverse, 0, sizeof(double) * size);
    for (int row = 0; row < n; row++)
        inverse[(size_t)row * n + row] = 1.0;
    dsyrk_("U", "N", &n, &n, &one, v, &n, &one, inverse, &n);
    for (int row = 0; row < n; row++)
        inverse[(size_t)row * n + row] /= 2.0;
    memcpy(change, top, sizeof(double) * size);
    multiply("N", "T", n, 1.0, bottom, v, 1.0, change);
    solve("R", "U", "N", "N", n, inverse, change);
    for (size_t place = 0; place < size; place++)
        top[place] -= change[place];
    multiply("N", "N", n, -1.0, change, v, 1.0, bottom);
}

int slipstream_kernel(enum kernel kernel, int n, double **tiles, double *scratch)
{
    switch (kernel) {
    case POTRF: return cholesky(n, tiles[0]);
    case TRSM: solve("L", "U", "T", "N", n, tiles[0], tiles[1]); return 0;
    case CHOLESKY_GEMM: multiply("T", "N", n, -1.0, tiles[1], tiles[0], 1.0, tiles[2]); return 0;
    case SYRK: subtract_square(n, tiles[0], tiles[1]); return 0;
    case LU: return lu(n, tiles[0], scratch);
    case FWD: solve("R", "U", "N", "U", n, tiles[0], tiles[1]); return 0;
    case BDIV: solve("L", "L", "N", "N", n, tiles[0], tiles[1]); return 0;
    case BMOD: multiply("N", "N", n, -1.0, tiles[1], tiles[0], 1.0, tiles[2]); return 0;
    case GEQRT: return qr(n, tiles[0], tiles[1], scratch);
    case ORMQR: apply_q(n, tiles[0], tiles[1], scratch); return 0;
    case TSQRT: return qr_pair(n, tiles[0], tiles[1], scratch);
    case TSMQR: apply_pair(n, tiles[0], tiles[1], tiles[2], scratch); return 0;
    case GEMM: multiply("N", "N", n, 1.0, tiles[1], tiles[0], 1.0, tiles[2]); return 0;
    }
    return -1;
}
