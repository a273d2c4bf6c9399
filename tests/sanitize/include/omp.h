#pragma once
// Replaces OpenMP's header in builds by clang with sanitizers: code that they compile has no
// threads of OpenMP.

inline void omp_set_num_threads(int) {}
inline int omp_get_max_threads() { return 1; }
