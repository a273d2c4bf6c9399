#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/core/rank_slice.h"
#include "accrue/core/stored_tensor.h"
#include "accrue/distributed/group.h"

namespace accrue::distributed {

/// By segment of a chain, the entries of a gradient buffer whose parameters the segment reads.
using EntriesBySegment = std::vector<std::vector<std::size_t>>;

/// By segment of a chain: lists the parameters that it reads. One of which a copy in the dtype of
/// products exists is listed by the copy, if that is not outdated. Each may be empty.
using ReadsOfSegments = std::vector<std::function<std::vector<at::Tensor>()>>;

/// Gives up the copies that segments list: all tensors but `parameters` and those `in_use`. Their
/// tensors are left empty, by which their maker sees that they have to be made again.
void give_up_copies(const ReadsOfSegments& reads, std::span<const at::Tensor> parameters,
                    std::span<const at::Tensor> in_use = {});

/// Which parameters of a model are divided among ranks.
struct ModelDivision {
  EntriesBySegment segments;  ///< divided ones only
  std::vector<bool> divided;  ///< by entry
  ReadsOfSegments reads;      ///< empty: there are no copies
};

/// Parameters and sums of gradients of which each rank keeps element_range_of() in memory
/// (Rajbhandari et al., "ZeRO", arXiv:1910.02054, stage 3), with a window that runs segment by
/// segment: enter() brings the other ranks' parts of a segment's parameters, so that a window sends
/// each part twice, however many micro-batches it has. Parts are sent from the tensor in which they
/// lie to the one that they belong in, without buffers between.
///
/// All ranks make the same calls in the same order. The tensors lie in a memory::ShardScope.
class ParameterShards {
 public:
  /// From here on this rank has its part of divided parameters and sums in memory. Values that
  /// other ranks keep are dropped. The optimizer and its gradient's shard must have the slice
  /// {rank, world} of the group.
  ParameterShards(std::shared_ptr<Group> group, std::shared_ptr<accum::GradientBuffer> buffer,
                  ModelDivision division);
  /// The memory of a rank without others, for measuring: enter() brings zeros in place of their
  /// parts, and nothing is collective.
  ParameterShards(const RankSlice& slice, std::shared_ptr<accum::GradientBuffer> buffer,
                  ModelDivision division);
  /// All tensors are in memory again; what other ranks kept is zero. No exchange may be under way.
  /// Without others, of parameters only this rank's part is (memory::keep_part()).
  ~ParameterShards();
  ParameterShards(const ParameterShards&) = delete;
  ParameterShards& operator=(const ParameterShards&) = delete;

  const std::vector<bool>& divided() const { return division_.divided; }

  /// Returns when the parameters of `segment` are in memory, whole, and, for its backward pass, the
  /// memory of sums that are not final; nothing else of other ranks is. Begins to bring the
  /// parameters of `next`. Copies that other segments made of their parameters are given up: they
  /// are made again from what is brought. Throws a runtime Error if a rank is missing.
  void enter(std::size_t segment, bool backward, std::optional<std::size_t> next);
  /// The divided entries that the segment reads.
  const std::vector<std::size_t>& entries_of(std::size_t segment) const {
    return division_.segments.at(segment);
  }
  /// Those whose sums are final after the segment's backward pass: no earlier segment reads them.
  std::vector<std::size_t> final_after(std::size_t segment) const;
  /// Drops everything of other ranks.
  void keep_own();

  /// The first of this rank's values that is not finite: the name of its parameter; empty if there
  /// is none. Not collective.
  std::string not_finite() const;
  /// Tensors that lie in parameters, as rank 0 writes them to a file, each once, in any order: a
  /// divided one is gathered when it is copied, while the other ranks are in hand_over() with the
  /// same tensors.
  StoredTensors gathered(const NamedParameters& tensors);
  /// Returns when rank 0 has copied all tensors.
  void hand_over(const NamedParameters& tensors);

  /// Bytes of divided parameters and their sums, of this rank's part, and the most that
  /// segments need beside it: that of two in forward, or of two with the sums of one.
  struct Bytes {
    std::int64_t whole = 0, own = 0, beside = 0;
  };
  Bytes bytes() const;

 private:
  ParameterShards(std::shared_ptr<Group> group, const RankSlice& slice,
                  std::shared_ptr<accum::GradientBuffer> buffer, ModelDivision division);
  const at::Tensor& parameter(std::size_t entry) const;
  const at::Tensor& sum(std::size_t entry) const;
  at::Tensor part_of(const at::Tensor& tensor, std::size_t entry, std::int64_t rank) const;
  bool is_current(std::size_t entry) const;
  void begin(const std::vector<std::size_t>& entries);
  void finish();
  void keep(const std::vector<at::Tensor>& more) const;
  void give_up_copies_of_others(std::optional<std::size_t> segment) const;
  std::vector<at::Tensor> sums_in_progress(std::size_t segment) const;
  std::optional<std::size_t> entry_with(const at::Tensor& tensor) const;
  void bring_to_first(std::size_t entry);
  std::int64_t from_first(std::int64_t number) const;

  std::shared_ptr<Group> group_;  ///< null: without others
  RankSlice slice_;
  std::shared_ptr<accum::GradientBuffer> buffer_;
  ModelDivision division_;
  std::vector<std::size_t> first_use_, last_use_;  ///< by entry: segments
  std::vector<at::Tensor> managed_;                ///< divided parameters and their sums
  std::vector<at::Tensor> own_;                    ///< what always stays of these pages
  /// By entry, the version of the parameter at which it was brought in; none if it is not here.
  std::vector<std::optional<std::int64_t>> brought_at_;
  std::vector<std::size_t> coming_;  ///< entries that are under way
  std::vector<std::unique_ptr<Work>> works_;
};

}  // namespace accrue::distributed
