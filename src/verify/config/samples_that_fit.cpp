#include "verify/config/samples_that_fit.h"

#include <algorithm>

#include "memory/thread_meter.h"
#include "verify/config/skipped.h"
#include "verify/free_bytes.h"

namespace accrue::proof {
batch::Range smallest_pass(ConfigSubject& subject) {
  const batch::Range window = subject.window();
  const batch::Range first{window.begin, window.begin + 1};
  try {
    subject.one_pass(first, {});
    return first;
  } catch (const std::exception& error) {
    if (!why_one_sample_fails(error)) throw;
  }
  const batch::Range two{window.begin, window.begin + 2};
  subject.one_pass(two, {});
  return two;
}

std::int64_t samples_that_fit(ConfigSubject& subject) {
  const batch::Range smallest = smallest_pass(subject);  // kernels' workspaces are allocated once
  const memory::ThreadMeter meter;
  subject.one_pass(smallest, {});
  const std::int64_t bytes = std::max<std::int64_t>(1, meter.peak());
  const std::int64_t passes = std::max<std::int64_t>(1, free_bytes() / 2 / bytes);
  return std::min(passes * smallest.size(), subject.samples());
}

}  // namespace accrue::proof
