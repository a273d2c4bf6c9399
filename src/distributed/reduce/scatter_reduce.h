#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/distributed/group.h"
#include "distributed/reduce/parcels.h"

namespace accrue::distributed {

/// Sends the sums of slots over all ranks to their owners, into their buffers, in parcels, of which
/// few are in transit at a time: so memory besides the buffer is bounded. Sums are added in order
/// of rank.
///
/// Parcels travel in the order in which they were given, whenever a rank calls push() or advance(),
/// so ranks need not run in lockstep.
class ScatterReduce {
 public:
  /// `group` and `buffer` are kept by reference. A parcel has at most `bytes_at_once` bytes.
  ScatterReduce(Group& group, const accum::GradientBuffer& buffer, std::int64_t bytes_at_once);

  /// Takes slots whose sums are final, by number; all have one dtype.
  void push(std::span<const std::size_t> slots);
  /// Takes in what has arrived, and sends the next parcels. Does not wait.
  void advance();
  /// Returns when everything has arrived. Nothing is in transit after it, even if it throws the
  /// first error; what was not sent then is dropped.
  void finish();
  bool is_idle() const { return waiting_.empty() && sent_.empty(); }

 private:
  struct Waiting {
    Parcel parcel;
    at::ScalarType dtype;
  };
  struct Sent {
    Parcel parcel;
    at::Tensor rows, received;
    std::unique_ptr<Work> work;
  };
  void send_next();
  void finish_oldest();
  at::Tensor flat(std::size_t slot) const;

  Group& group_;
  const accum::GradientBuffer& buffer_;
  std::int64_t bytes_at_once_;
  std::vector<std::int64_t> elements_;  ///< by slot
  std::deque<Waiting> waiting_;
  std::deque<Sent> sent_;
};

}  // namespace accrue::distributed
