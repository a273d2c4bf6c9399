#pragma once
// In place of OpenMP's header, in builds by clang with sanitizers: there are no threads of OpenMP's
// in what they compile.

inline void omp_set_num_threads(int) {}
inline int omp_get_max_threads() { return 1; }
