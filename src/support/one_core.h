#pragma once

#include <ATen/Parallel.h>
#include <omp.h>

namespace accrue {

/// While it lives, the calling thread computes on one core. For helper threads: the one that trains
/// is not to wait for theirs in barriers, and each would have a team of OpenMP threads of its own,
/// which ends the process if the system starts no more.
class OneCore {
 public:
  OneCore() : before_(of_this_thread()) { omp_set_num_threads(1); }
  ~OneCore() { omp_set_num_threads(before_); }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  static int of_this_thread() {
    at::internal::lazy_init_num_threads();
    return omp_get_max_threads();
  }

  int before_;
};

}  // namespace accrue
