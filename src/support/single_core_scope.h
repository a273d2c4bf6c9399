#pragma once

#include <ATen/Parallel.h>
#include <omp.h>

namespace accrue {

/// During its lifetime, the calling thread computes on one core. For helper threads: the training
/// thread must not wait for theirs in barriers, and each would have its own team of OpenMP threads,
/// which ends the process if the system refuses to start more.
class SingleCoreScope {
 public:
  SingleCoreScope() : before_(of_this_thread()) { omp_set_num_threads(1); }
  ~SingleCoreScope() { omp_set_num_threads(before_); }
  SingleCoreScope(const SingleCoreScope&) = delete;
  SingleCoreScope& operator=(const SingleCoreScope&) = delete;

 private:
  static int of_this_thread() {
    at::internal::lazy_init_num_threads();
    return omp_get_max_threads();
  }

  int before_;
};

}  // namespace accrue
