#include "distributed/reduce/parameter_shards.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/memory/shard_scope.h"
#include "kernels/finite.h"

namespace accrue::distributed {
namespace {

constexpr const char* kOfSegment = "the parameters of a segment";
constexpr const char* kOfCheckpoint = "the parameters for a checkpoint";

std::int64_t nbytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

/// A parameter may have been made in parts already: values outside of them are lost.
void expect_kept(const std::string& name, const at::Tensor& parameter, const ElementRange& own) {
  const ElementRange kept = memory::kept_part(parameter);
  if (kept.begin <= own.begin && own.begin + own.elements <= kept.begin + kept.elements) return;
  throw runtime_error("divide the model among ranks", "parameters made in the parts that are kept",
                      "'" + name + "' made in another part",
                      "dist.shard = \"optimizer\", and report this");
}

}  // namespace

void give_up_copies(const ReadsOfSegments& reads, std::span<const at::Tensor> parameters,
                    std::span<const at::Tensor> in_use) {
  for (const auto& read_by_segment : reads) {
    if (!read_by_segment) continue;
    for (const at::Tensor& tensor : read_by_segment()) {
      const auto is_it = [&](const at::Tensor& other) { return other.is_same(tensor); };
      if (std::ranges::any_of(parameters, is_it) || std::ranges::any_of(in_use, is_it)) continue;
      tensor.set_data(at::empty({0}, tensor.options()));
    }
  }
}

ParameterShards::ParameterShards(std::shared_ptr<Group> group,
                                 std::shared_ptr<accum::GradientBuffer> buffer,
                                 ModelDivision division)
    : ParameterShards(group, RankSlice{group->rank(), group->world()}, std::move(buffer),
                      std::move(division)) {}

ParameterShards::ParameterShards(const RankSlice& slice,
                                 std::shared_ptr<accum::GradientBuffer> buffer,
                                 ModelDivision division)
    : ParameterShards(nullptr, slice, std::move(buffer), std::move(division)) {}

ParameterShards::ParameterShards(std::shared_ptr<Group> group, const RankSlice& slice,
                                 std::shared_ptr<accum::GradientBuffer> buffer,
                                 ModelDivision division)
    : group_(std::move(group)),
      slice_(slice),
      buffer_(std::move(buffer)),
      division_(std::move(division)),
      first_use_(buffer_->entries().size(), division_.segments.size()),
      last_use_(buffer_->entries().size(), 0),
      brought_at_(buffer_->entries().size()) {
  for (std::size_t segment = 0; segment < division_.segments.size(); ++segment)
    for (const std::size_t entry : division_.segments[segment]) {
      first_use_[entry] = std::min(first_use_[entry], segment);
      last_use_[entry] = std::max(last_use_[entry], segment);
    }
  for (std::size_t entry = 0; entry < buffer_->entries().size(); ++entry) {
    if (!division_.divided[entry]) {
      own_.push_back(sum(entry));  // it shares pages with its neighbours
      continue;
    }
    expect_kept(buffer_->entries()[entry].name, parameter(entry),
                element_range_of(parameter(entry).numel(), entry, slice_));
    for (const at::Tensor& tensor : {parameter(entry), sum(entry)}) {
      managed_.push_back(tensor);
      own_.push_back(part_of(tensor, entry, slice_.rank));
    }
  }
  keep_own();
  memory::restart_shard_peak();
}

ParameterShards::~ParameterShards() {
  try {
    give_up_copies_of_others(std::nullopt);
    memory::keep_in_scope(managed_, managed_);
    if (group_ != nullptr) return;
    for (std::size_t entry = 0; entry < division_.divided.size(); ++entry)
      if (division_.divided[entry]) memory::keep_part(parameter(entry), entry);
  } catch (const std::exception&) {
    // Pages that stay out of memory end the process with an error if they are read.
  }
}

const at::Tensor& ParameterShards::parameter(std::size_t entry) const {
  return buffer_->entries()[entry].parameter;
}

const at::Tensor& ParameterShards::sum(std::size_t entry) const {
  return buffer_->entries()[entry].slot->main;
}

at::Tensor ParameterShards::part_of(const at::Tensor& tensor, std::size_t entry,
                                    std::int64_t rank) const {
  const ElementRange range = element_range_of(tensor.numel(), entry, {rank, slice_.world});
  return tensor.detach().view({-1}).narrow(0, range.begin, range.elements);
}

/// A step changes parameters, also those that are still here.
bool ParameterShards::is_current(std::size_t entry) const {
  return brought_at_[entry] == static_cast<std::int64_t>(parameter(entry)._version());
}

void ParameterShards::keep(const std::vector<at::Tensor>& more) const {
  std::vector<at::Tensor> kept = own_;
  kept.insert(kept.end(), more.begin(), more.end());
  memory::keep_in_scope(managed_, kept);
}

/// The copies of all segments together are as large as half of the model.
void ParameterShards::give_up_copies_of_others(std::optional<std::size_t> segment) const {
  std::vector<at::Tensor> parameters, in_use;
  for (std::size_t entry = 0; entry < division_.divided.size(); ++entry)
    parameters.push_back(parameter(entry));
  if (segment && !division_.reads.empty() && division_.reads.at(*segment))
    in_use = division_.reads[*segment]();
  give_up_copies(division_.reads, parameters, in_use);
}

/// Those that a segment from `segment` on has added to, or will, and that are not final yet.
std::vector<at::Tensor> ParameterShards::sums_in_progress(std::size_t segment) const {
  std::vector<at::Tensor> sums;
  for (std::size_t entry = 0; entry < division_.divided.size(); ++entry)
    if (division_.divided[entry] && first_use_[entry] <= segment && segment <= last_use_[entry])
      sums.push_back(sum(entry));
  return sums;
}

void ParameterShards::enter(std::size_t segment, bool backward, std::optional<std::size_t> next) {
  RECORD_USER_SCOPE("shard: gather");
  finish();
  give_up_copies_of_others(segment);
  std::vector<std::size_t> needed = entries_of(segment);
  if (next) needed.insert(needed.end(), entries_of(*next).begin(), entries_of(*next).end());
  std::vector<at::Tensor> kept = backward ? sums_in_progress(segment) : std::vector<at::Tensor>();
  for (const std::size_t entry : needed) kept.push_back(parameter(entry));
  keep(kept);
  for (std::size_t entry = 0; entry < brought_at_.size(); ++entry)
    if (std::ranges::find(needed, entry) == needed.end()) brought_at_[entry].reset();
  begin(entries_of(segment));
  finish();
  if (next) begin(entries_of(*next));
}

/// Each rank sends to the one after it first, so that no rank gets everything at once.
void ParameterShards::begin(const std::vector<std::size_t>& entries) {
  if (group_ == nullptr) return;
  const std::int64_t rank = slice_.rank, world = slice_.world;
  for (const std::size_t entry : entries) {
    if (is_current(entry)) continue;
    const at::Tensor own = part_of(parameter(entry), entry, rank);
    for (std::int64_t distance = 1; distance < world; ++distance) {
      const std::int64_t to = (rank + distance) % world, from = (rank + world - distance) % world;
      const at::Tensor theirs = part_of(parameter(entry), entry, from);
      if (own.numel() > 0) works_.push_back(group_->start_send(own, to, kOfSegment));
      if (theirs.numel() > 0) works_.push_back(group_->start_receive(theirs, from, kOfSegment));
    }
    coming_.push_back(entry);
  }
}

void ParameterShards::finish() {
  const std::vector<std::unique_ptr<Work>> works = std::exchange(works_, {});
  for (const auto& work : works) work->wait();
  for (const std::size_t entry : std::exchange(coming_, {}))
    brought_at_[entry] = static_cast<std::int64_t>(parameter(entry)._version());
}

std::vector<std::size_t> ParameterShards::final_after(std::size_t segment) const {
  std::vector<std::size_t> entries = entries_of(segment);
  std::erase_if(entries, [&](std::size_t entry) { return first_use_[entry] != segment; });
  return entries;
}

void ParameterShards::keep_own() {
  finish();
  give_up_copies_of_others(std::nullopt);
  keep({});
  std::ranges::fill(brought_at_, std::nullopt);
}

std::string ParameterShards::not_finite() const {
  for (std::size_t entry = 0; entry < division_.divided.size(); ++entry) {
    const at::Tensor values = division_.divided[entry]
                                  ? part_of(parameter(entry), entry, slice_.rank)
                                  : parameter(entry).detach();
    if (!kernels::all_finite(values)) return buffer_->entries()[entry].name;
  }
  return {};
}

std::optional<std::size_t> ParameterShards::entry_with(const at::Tensor& tensor) const {
  for (std::size_t entry = 0; entry < division_.divided.size(); ++entry)
    if (division_.divided[entry] && tensor.defined() && tensor.is_alias_of(parameter(entry)))
      return entry;
  return std::nullopt;
}

std::int64_t ParameterShards::from_first(std::int64_t number) const {
  const at::Tensor value = at::full({1}, number, at::kLong);
  group_->broadcast(value, 0, kOfCheckpoint);
  return value.item<std::int64_t>();
}

void ParameterShards::bring_to_first(std::size_t entry) {
  const bool is_first = group_->rank() == 0;
  if (is_first) keep({parameter(entry)});
  std::vector<std::unique_ptr<Work>> works;
  for (std::int64_t other = 1; other < group_->world(); ++other) {
    const at::Tensor part = part_of(parameter(entry), entry, other);
    if (part.numel() == 0) continue;
    if (is_first) works.push_back(group_->start_receive(part, other, kOfCheckpoint));
    if (group_->rank() == other) works.push_back(group_->start_send(part, 0, kOfCheckpoint));
  }
  for (const auto& work : works) work->wait();
}

StoredTensors ParameterShards::gathered(const NamedParameters& tensors) {
  StoredTensors result = stored(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::optional<std::size_t> entry = entry_with(tensors[i].tensor);
    if (!entry) continue;
    result[i].copy_to = [this, entry = *entry,
                         values = tensors[i].tensor](const at::Tensor& target) {
      from_first(static_cast<std::int64_t>(entry));
      bring_to_first(entry);
      target.copy_(values);
      keep_own();
    };
  }
  return result;
}

void ParameterShards::hand_over(const NamedParameters& tensors) {
  for (const auto& [name, tensor] : tensors)
    if (entry_with(tensor)) bring_to_first(static_cast<std::size_t>(from_first(0)));
}

ParameterShards::Bytes ParameterShards::bytes() const {
  Bytes bytes;
  for (const at::Tensor& tensor : managed_) bytes.whole += nbytes_of(tensor);
  for (std::size_t entry = 0; entry < division_.divided.size(); ++entry)
    if (division_.divided[entry])
      for (const at::Tensor& tensor : {parameter(entry), sum(entry)})
        bytes.own += nbytes_of(part_of(tensor, entry, slice_.rank));
  const auto of_parameters = [&](std::size_t segment) {
    std::int64_t sum_of = 0;
    for (const std::size_t entry : entries_of(segment)) sum_of += nbytes_of(parameter(entry));
    return sum_of;
  };
  for (std::size_t segment = 0; segment < division_.segments.size(); ++segment) {
    std::int64_t needed = of_parameters(segment);
    if (segment > 0) needed += of_parameters(segment - 1);
    for (const at::Tensor& tensor : sums_in_progress(segment)) needed += nbytes_of(tensor);
    bytes.beside = std::max(bytes.beside, needed);
  }
  return bytes;
}

}  // namespace accrue::distributed
