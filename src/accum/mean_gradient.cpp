#include "accrue/accum/mean_gradient.h"

#include <ATen/Parallel.h>

#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "accrue/core/error.h"
#include "accrue/memory/offload_passes.h"
#include "accum/slot_binding.h"
#include "accum/staged_sum.h"
#include "accum/sum_of_terms.h"
#include "core/kernel_span.h"
#include "kernels/backend.h"

namespace accrue::accum {
namespace {

/// Chunks are summed completely and added in order, so the norm has the same bits for any number of
/// threads.
constexpr std::int64_t kChunkElements = 1 << 16;
/// The number of elements of an entry read on the stack. No block has two owners.
constexpr std::int64_t kBlockElements = kRangeGrain;
constexpr std::int64_t kChunkBlocks = kChunkElements / kBlockElements;
constexpr std::int64_t kBlocksOfATask = 8;

static_assert(memory::kPieceElements % kChunkElements == 0);

std::int64_t chunks_of(std::int64_t elements) {
  return (elements + kChunkElements - 1) / kChunkElements;
}

/// `sum_of_chunk(first, count)` over chunks of the elements, added in order.
template <typename SumOfChunk>
double sum_over_chunks(const at::Tensor& flat, const SumOfChunk& sum_of_chunk) {
  const std::int64_t total = flat.numel();
  std::vector<double> sums(static_cast<std::size_t>(chunks_of(total)));
  memory::for_pieces(flat, [&](std::int64_t piece, std::int64_t elements) {
    at::parallel_for(piece / kChunkElements, chunks_of(piece + elements), 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t chunk = begin; chunk < end; ++chunk) {
                         const std::int64_t first = chunk * kChunkElements;
                         sums[static_cast<std::size_t>(chunk)] =
                             sum_of_chunk(first, std::min(kChunkElements, total - first));
                       }
                     });
  });
  double sum = 0;
  for (const double chunk : sums) sum += chunk;
  return sum;
}

template <typename Element>
double cpu_sum_of_squares(const at::Tensor& flat) {
  const Element* values = flat.const_data_ptr<Element>();
  return sum_over_chunks(flat, [&](std::int64_t first, std::int64_t count) {
    return sum_of_squares_of(values + first, count);
  });
}

double sum_of_squares(const at::Tensor& flat) {
  RECORD_FUNCTION("accrue::gradient_norm", span_of({flat}));
  return kernels::in_form_of(
      flat,
      [&] {
        return flat.scalar_type() == at::kDouble ? cpu_sum_of_squares<double>(flat)
                                                 : cpu_sum_of_squares<float>(flat);
      },
      [&] {
        const double norm = at::linalg_vector_norm(flat, 2, {}, false, at::kDouble).item<double>();
        return norm * norm;
      });
}

std::int64_t blocks_of(std::int64_t elements) {
  return (elements + kBlockElements - 1) / kBlockElements;
}

/// Sums up each block in a range of an entry; `sums` has one element for every block of the entry.
void sum_blocks(const GradientSource& source, const ElementRange& range, std::span<double> sums) {
  at::parallel_for(0, blocks_of(range.elements), kBlocksOfATask,
                   [&](std::int64_t begin, std::int64_t end) {
                     std::array<double, kBlockElements> block;
                     for (std::int64_t i = begin; i < end; ++i) {
                       const std::int64_t done = i * kBlockElements;
                       const std::int64_t size = std::min(kBlockElements, range.elements - done);
                       source.read(range.begin + done, size, block.data());
                       sums[static_cast<std::size_t>(range.begin / kBlockElements + i)] =
                           sum_of_squares_of(block.data(), size);
                     }
                   });
}

/// Elements of one entry that are read at once.
struct EntryPart {
  std::size_t entry;
  GradientSource source;
  ElementRange range;
};
static_assert(memory::kPieceElements % kBlockElements == 0);

/// Appends the range of an entry, in pieces if its sum is offloaded.
void append_parts(std::vector<EntryPart>& parts, const EntryPart& whole, bool is_offloaded) {
  const std::int64_t end = whole.range.begin + whole.range.elements;
  const std::int64_t step = is_offloaded ? memory::kPieceElements : whole.range.elements;
  for (std::int64_t begin = whole.range.begin; begin < end; begin += step)
    parts.push_back({whole.entry, whole.source, {begin, std::min(step, end - begin)}});
}

/// Adds up the blocks' sums by chunks, in order.
double sum_in_order(std::span<const double> blocks) {
  double sum = 0;
  while (!blocks.empty()) {
    const auto chunk = blocks.first(std::min<std::size_t>(kChunkBlocks, blocks.size()));
    sum += std::accumulate(chunk.begin(), chunk.end(), 0.0);
    blocks = blocks.subspan(chunk.size());
  }
  return sum;
}

}  // namespace

MeanGradient::MeanGradient(std::shared_ptr<GradientBuffer> buffer, double weight,
                           const SumShard* shard)
    : buffer_(std::move(buffer)),
      shard_(shard),
      weight_(weight),
      scale_(buffer_->folds() ? 1 : 1 / weight) {}

void MeanGradient::require_values(const char* call) const {
  if (!buffer_->folds()) return;
  throw usage_error(call, "a gradient that a buffer holds",
                    "one that was folded into the optimizer's state, which has no values to read",
                    "memory.gradients = \"buffer\" for a norm, clipping (optim.clip) or a hook");
}

GradientSource MeanGradient::source(std::size_t index) const {
  require_values("read the mean gradient");
  if (index < copies_.size() && copies_[index].defined()) return {.tensor = copies_[index]};
  return source_of(buffer_->entries().at(index));
}

double MeanGradient::norm() {
  require_values("norm of the mean gradient");
  if (!raw_norm_) raw_norm_ = raw_norm();
  return *raw_norm_ * scale_;
}

/// Computes the norm of sums by ATen's operators; waits for the device once.
double MeanGradient::norm_by_operators() const {
  std::vector<at::Tensor> norms;
  for (std::size_t i = 0; i < buffer_->entries().size(); ++i) {
    const GradientSource values = source(i);
    norms.push_back(
        at::linalg_vector_norm(values.staged ? values.staged->values(at::kDouble) : values.tensor,
                               2, {}, false, at::kDouble));
  }
  return at::stack(norms).norm().item<double>();
}

double MeanGradient::raw_norm() const {
  if (shard_ != nullptr) return std::sqrt(sum_of_entries());
  if (buffer_->is_staged())
    return kernels::in_form_of(
        buffer_->entries().front().slot->main, [&] { return std::sqrt(sum_of_entries()); },
        [&] { return norm_by_operators(); });
  double sum = 0;
  for (const at::Tensor& flat : buffer_->flat()) sum += sum_of_squares(flat);
  return std::sqrt(sum);
}

/// A block that another rank holds is 0 here, so adding up over ranks does not round.
double MeanGradient::sum_of_entries() const {
  const RankSlice slice = shard_ != nullptr ? shard_->slice() : RankSlice{};
  const auto elements = [&](std::size_t i) { return buffer_->entries()[i].slot->main.numel(); };
  const std::size_t entries = buffer_->entries().size();
  std::vector<std::size_t> first{0};
  for (std::size_t i = 0; i < entries; ++i)
    first.push_back(first.back() + static_cast<std::size_t>(blocks_of(elements(i))));
  std::vector<double> blocks(first.back(), 0);
  const auto of = [&](std::size_t i) {
    return std::span(blocks).subspan(first[i], first[i + 1] - first[i]);
  };
  std::vector<EntryPart> parts;
  for (std::size_t i = 0; i < entries; ++i)
    append_parts(parts, {i, source(i), element_range_of(elements(i), i, slice)},
                 memory::is_offloaded(buffer_->entries()[i].slot->main));
  memory::for_parts(
      parts.size(),
      [&](std::size_t part) { return parts[part].source.memory_of(parts[part].range); },
      [&](std::size_t part) {
        sum_blocks(parts[part].source, parts[part].range, of(parts[part].entry));
      });
  if (shard_ != nullptr) shard_->add_up(blocks);
  double sum = 0;
  for (std::size_t i = 0; i < entries; ++i) sum += sum_in_order(of(i));
  return sum;
}

double MeanGradient::clip(double max_norm) {
  if (!(max_norm > 0))
    throw usage_error("clip", "a maximal norm above 0", std::to_string(max_norm),
                      "not clipping at all, or a norm such as 1.0");
  require_values("clip");
  const double before = norm();
  if (before > max_norm) {
    scale_ *= max_norm / before;
    clipping_ *= max_norm / before;
    if (is_materialized_) materialize();
  }
  return before;
}

void MeanGradient::materialize() {
  require_values("materialize the mean gradient");
  if (shard_ != nullptr)
    throw usage_error("materialize the mean gradient", "all of it",
                      "a shard, with the rest on other ranks", "dist.shard = \"none\"");
  const at::NoGradGuard no_grad;
  if (scale_ != 1) {
    for (const GradientBuffer::Entry& entry : buffer_->entries())
      if (!entry.staged) entry.slot->main.mul_(scale_);
    for (const at::Tensor& copy : copies_)
      if (copy.defined()) copy.mul_(scale_);
    renew_narrow();
  }
  if (buffer_->is_staged() && copies_.empty()) copy_staged();
  if (raw_norm_) *raw_norm_ *= scale_;
  scale_ = 1;
  is_materialized_ = true;
}

void MeanGradient::renew_narrow() {
  const std::shared_ptr<Shown> shown = shown_.lock();
  for (std::size_t i = 0; i < buffer_->entries().size(); ++i) {
    const GradientBuffer::Entry& entry = buffer_->entries()[i];
    if (!is_narrow(entry) || !entry.parameter.grad().defined()) continue;
    entry.parameter.mutable_grad().copy_(entry.slot->main);
    if (shown) (*shown)[i] = entry.slot->main._version();
  }
}

void MeanGradient::copy_staged() {
  for (const GradientBuffer::Entry& entry : buffer_->entries()) {
    at::Tensor& copy = copies_.emplace_back();
    if (!entry.staged || entry.slot->contributions == 0) continue;
    copy = source_of(entry).scaled_copy(scale_, entry.parameter);
    entry.parameter.mutable_grad() = copy;
  }
}

std::shared_ptr<MeanGradient::Shown> MeanGradient::show() {
  materialize();
  auto shown = std::make_shared<Shown>();
  for (const GradientBuffer::Entry& entry : buffer_->entries()) {
    const bool is_used = entry.slot->contributions > 0;
    if (is_used && is_narrow(entry))
      entry.parameter.mutable_grad() = entry.slot->main.to(entry.parameter.scalar_type());
    shown->push_back(is_used ? std::optional(entry.slot->main._version()) : std::nullopt);
  }
  shown_ = shown;
  return shown;
}

void MeanGradient::changed() {
  raw_norm_.reset();
  const std::shared_ptr<Shown> shown = shown_.lock();
  if (!shown) return;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < shown->size(); ++i)
    if ((*shown)[i] || buffer_->entries()[i].parameter.grad().defined()) take_shown(i, (*shown)[i]);
}

/// A narrow copy has fewer digits than the sum, so it only counts if it differs, and not if the sum
/// was written since it was made.
void MeanGradient::take_shown(std::size_t index, std::optional<std::int64_t> version_shown) {
  const GradientBuffer::Entry& entry = buffer_->entries()[index];
  at::Tensor& grad = entry.parameter.mutable_grad();
  at::Tensor& read = entry.staged ? copies_[index] : entry.slot->main;
  entry.slot->contributions =
      grad.defined() ? std::max<std::int64_t>(entry.slot->contributions, 1) : 0;
  if (!grad.defined()) {
    read.zero_();
  } else if (entry.staged) {
    read = grad = grad.contiguous();
  } else if (!is_narrow(entry)) {
    if (!grad.is_same(entry.slot->bound)) read.copy_(grad);
    grad = entry.slot->bound;
  } else if (!version_shown || read._version() == *version_shown) {
    const at::Tensor differs = grad.ne(read.to(grad.scalar_type()));
    read.copy_(at::where(differs, grad.to(read.scalar_type()), read));
  }
}

}  // namespace accrue::accum
