#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "accrue/accum/sum_shard.h"
#include "accrue/core/parameter.h"
#include "accrue/distributed/group.h"

namespace accrue::distributed {

/// Optimizer state divided among ranks (Rajbhandari et al., "ZeRO", arXiv:1910.02054, stage 1;
/// Shoeybi et al., "Megatron-LM", arXiv:1909.08053): each rank steps element_range_of() each
/// parameter, and then all get the parameters again. With a DeferredReduce that has it in its
/// ReduceOptions a step sends the same bytes as a sum of the gradients alone: (world - 1) / world
/// of them to their owners, and the same number of parameter bytes back.
///
/// Exchanges are packed: a temporary of `bytes_at_once`, whatever the sizes of
/// parameters.
class Sharding final : public accum::SumShard {
 public:
  /// `trained` are the parameters of the optimizer and the gradient buffer, in their order;
  /// `divided` says by parameter whether each rank keeps only its slice of it (ParameterShards),
  /// and is empty if all are whole. All ranks construct it alike. Throws a usage Error if a
  /// parameter is not contiguous and on the CPU.
  Sharding(std::shared_ptr<Group> group, NamedParameters trained, std::vector<bool> divided = {},
           std::int64_t bytes_at_once = std::int64_t{4} << 20);

  RankSlice slice() const override { return {group_->rank(), group_->world()}; }
  void add_up(std::vector<double>& numbers) const override;
  void take_largest(std::vector<std::int64_t>& numbers) const override;

  /// Call it after each rank has stepped its slice: all parameters are set to those of their
  /// owners. Divided ones are only marked as changed.
  void gather_parameters() const;

  /// Gathers a tensor of which each rank holds a range on rank 0. There `whole`, flat and
  /// contiguous, is filled; the others pass an undefined tensor. Collective, with tensors of one
  /// dtype.
  void gather(const ElementRange& range, const at::Tensor& own, const at::Tensor& whole) const;
  /// Sends a number of rank 0 to all.
  std::int64_t from_first(std::int64_t number, std::string_view what) const;

  std::int64_t bytes_at_once() const { return bytes_at_once_; }

 private:
  std::shared_ptr<Group> group_;
  NamedParameters trained_;
  std::vector<bool> divided_;
  std::int64_t bytes_at_once_;
};

}  // namespace accrue::distributed
