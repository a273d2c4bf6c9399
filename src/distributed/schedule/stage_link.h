#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "accrue/distributed/group.h"

namespace accrue::distributed {

/// Messages between the stages of a pipeline: lists of tensors, whose shapes and dtypes travel with
/// them. Lists between two ranks arrive in the order in which they were sent.
class StageLink {
 public:
  explicit StageLink(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  /// Takes a copy and returns at once; if `to` has not received two earlier lists yet, it returns
  /// when `to` has received the older one. Copies of these stay here until then, or until finish().
  /// Undefined tensors arrive as such. Throws a usage Error if shapes do not fit into a header, and
  /// a runtime Error if a rank is gone.
  void send(std::int64_t to, const std::vector<at::Tensor>& tensors, std::string_view what);
  /// Waits for the next list of `from`. Throws a runtime Error as Work::wait() does.
  std::vector<at::Tensor> receive(std::int64_t from, std::string_view what);
  /// Returns when everything that was sent has been received.
  void finish();

 private:
  /// A list in transit: its header and its tensors.
  using Parcel = std::vector<std::unique_ptr<Work>>;
  static void wait_for(const Parcel& parcel);

  std::shared_ptr<Group> group_;
  std::map<std::int64_t, std::deque<Parcel>> sent_;  ///< by destination, oldest first
};

}  // namespace accrue::distributed
