#include "verify/config/loading_check.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace accrue::proof {
namespace {

using batch::MicroBatch;

constexpr std::int64_t padded_label = -100;

/// Sequence `i` of a micro-batch: its own row, or its columns of a packed one. In a row that is
/// longer than the sequence it has `length` columns; 0: all, as for images.
struct SamplePlace {
  std::int64_t row = 0, begin = 0, length = 0;
  at::Tensor of(const at::Tensor& rows) const {
    const at::Tensor own = rows.select(0, row);
    return length == 0 ? own : own.narrow(0, begin, length);
  }
  at::Tensor behind(const at::Tensor& rows) const {
    return rows.select(0, row).slice(0, begin + length);
  }
};

std::int64_t columns(const MicroBatch& micro) {
  return micro.targets.dim() == 2 ? micro.targets.size(1) : 0;
}

SamplePlace place_of(const MicroBatch& micro, std::int64_t i, std::int64_t length) {
  if (micro.spans.empty()) return {.row = i, .length = length};
  const SampleSpan& span = micro.spans[static_cast<std::size_t>(i)];
  return {.row = span.row, .begin = span.begin, .length = span.end - span.begin};
}

at::Tensor weights_of(const MicroBatch& micro) {
  return micro.weights.defined() ? micro.weights : at::ones(micro.targets.sizes());
}

/// Whether sequence `sequence` of sample `i` equals that of the sample loaded `alone`.
bool is_same_sequence(const MicroBatch& micro, std::int64_t i, const MicroBatch& alone,
                      std::int64_t sequence) {
  const std::int64_t length = columns(alone);
  const SamplePlace place = place_of(micro, i * micro.sequences_per_sample + sequence, length);
  const SamplePlace own = place_of(alone, sequence, length);
  if (place.length != own.length || place.begin + place.length > columns(micro)) return false;
  const bool counts_alike = at::equal(place.of(weights_of(micro)), own.of(weights_of(alone)));
  if (!counts_alike || !at::equal(place.of(micro.inputs), own.of(alone.inputs)) ||
      !at::equal(place.of(micro.targets), own.of(alone.targets)))
    return false;
  const bool fills_its_row = !micro.spans.empty() || columns(micro) == length;
  return fills_its_row || place.behind(micro.targets).eq(padded_label).all().item<bool>();
}

/// Whether row `i` of a column is that of the sample alone, followed by padding.
bool is_same_row(const at::Tensor& column, std::int64_t i, const at::Tensor& alone) {
  if (column.dim() != alone.dim()) return false;
  if (column.dim() == 1) return at::equal(column[i], alone[0]);
  const std::int64_t length = alone.size(1);
  if (column.size(1) < length || !at::equal(column[i].slice(0, 0, length), alone[0])) return false;
  const at::Tensor behind = column[i].slice(0, length);
  return behind.eq(0).logical_or(behind.eq(padded_label)).all().item<bool>();
}

bool has_same_columns(const MicroBatch& micro, std::int64_t i, const MicroBatch& alone) {
  if (micro.columns.size() != alone.columns.size()) return false;
  return std::ranges::all_of(alone.columns, [&](const auto& column) {
    const auto of_micro = micro.columns.find(column.first);
    return of_micro != micro.columns.end() && is_same_row(of_micro->second, i, column.second);
  });
}

/// Whether sample `i` has the same columns as alone, with the same values in its rows, followed by
/// padding in longer ones.
bool is_same_of_columns(const MicroBatch& micro, std::int64_t i, const MicroBatch& alone) {
  const auto is_same_tensor = [&](const at::Tensor& rows, const at::Tensor& own) {
    if (rows.defined() != own.defined()) return false;
    return !own.defined() || is_same_row(rows, i, own);
  };
  return has_same_columns(micro, i, alone) && is_same_tensor(micro.inputs, alone.inputs) &&
         is_same_tensor(micro.targets, alone.targets) &&
         is_same_tensor(micro.weights, alone.weights);
}

bool is_same(const MicroBatch& micro, std::int64_t i, const MicroBatch& alone) {
  if (!alone.columns.empty() || !alone.targets.defined())
    return is_same_of_columns(micro, i, alone);
  if (micro.sequences_per_sample != alone.sequences_per_sample) return false;
  if (micro.reference.defined() != alone.reference.defined()) return false;
  if (alone.reference.defined() && !at::equal(micro.reference[i], alone.reference[0])) return false;
  for (std::int64_t sequence = 0; sequence < alone.sequences_per_sample; ++sequence)
    if (!is_same_sequence(micro, i, alone, sequence)) return false;
  return true;
}

/// Samples that cannot be read have no row.
std::string fault_of(const data::Loader& loader, batch::Range part) {
  const MicroBatch micro = loader.fetch(part);
  const std::string of = " of the micro-batch of draws " + std::to_string(part.begin) + " to " +
                         std::to_string(part.end - 1);
  std::int64_t i = 0;
  for (std::int64_t draw = part.begin; draw < part.end; ++draw) {
    const MicroBatch alone = loader.fetch({draw, draw + 1});
    if (alone.is_empty()) continue;
    if (i >= std::ssize(micro.sample_ids) || micro.sample_ids[static_cast<std::size_t>(i)] != draw)
      return "draw " + std::to_string(draw) + of + " is not in its place";
    if (!is_same(micro, i, alone))
      return "draw " + std::to_string(draw) + of + " is not the sample that it is by itself";
    ++i;
  }
  return i == std::ssize(micro.sample_ids) ? "" : "there are more samples than draws" + of;
}

}  // namespace

std::vector<std::string> faults_of_loading(const data::Loader& loader, const Parts& parts) {
  for (const batch::Range part : parts) {
    std::string fault = fault_of(loader, part);
    if (!fault.empty()) return {std::move(fault)};
  }
  return {};
}

}  // namespace accrue::proof
