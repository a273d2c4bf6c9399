#include "data/sequence_batch.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace accrue::data {
namespace {

constexpr std::int64_t padding_id = 0;

}  // namespace

bool is_rows_of_tokens(const batch::MicroBatch& micro) {
  return micro.columns.empty() && !micro.own.is_there() && micro.inputs.defined() &&
         micro.inputs.dim() == 2 && micro.inputs.scalar_type() == at::kLong &&
         micro.inputs.is_contiguous();
}

std::vector<SampleSpan> one_a_row(std::span<const std::int64_t> lengths) {
  std::vector<SampleSpan> spans;
  for (const std::int64_t length : lengths)
    spans.push_back({.row = std::ssize(spans), .begin = 0, .end = length});
  return spans;
}

std::vector<SampleSpan> first_fit(std::span<const std::int64_t> lengths, std::int64_t capacity) {
  std::vector<SampleSpan> spans;
  std::vector<std::int64_t> row_ends;
  for (const std::int64_t length : lengths) {
    auto row = std::find_if(row_ends.begin(), row_ends.end(),
                            [&](std::int64_t end) { return end + length <= capacity; });
    if (row == row_ends.end()) row = row_ends.insert(row, 0);
    spans.push_back({.row = row - row_ends.begin(), .begin = *row, .end = *row + length});
    *row += length;
  }
  return spans;
}

batch::MicroBatch make_micro_batch(std::span<const Sequence> sequences,
                                   std::span<const SampleSpan> spans) {
  std::int64_t rows = 0, columns = 0;
  for (const SampleSpan& span : spans) {
    rows = std::max(rows, span.row + 1);
    columns = std::max(columns, span.end);
  }
  batch::MicroBatch micro;
  micro.inputs = at::full({rows, columns}, padding_id, at::kLong);
  micro.targets = at::full({rows, columns}, ignored_target, at::kLong);
  const bool is_weighted = std::any_of(sequences.begin(), sequences.end(),
                                       [](const Sequence& s) { return s.weight != 1; });
  if (is_weighted) micro.weights = at::zeros({rows, columns}, at::kFloat);
  auto* inputs = micro.inputs.mutable_data_ptr<std::int64_t>();
  auto* targets = micro.targets.mutable_data_ptr<std::int64_t>();
  float* weights = is_weighted ? micro.weights.mutable_data_ptr<float>() : nullptr;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& sequence = sequences[i];
    const std::int64_t offset = spans[i].row * columns + spans[i].begin;
    std::copy(sequence.inputs.begin(), sequence.inputs.end(), inputs + offset);
    std::copy(sequence.targets.begin(), sequence.targets.end(), targets + offset);
    if (is_weighted) std::fill_n(weights + offset, sequence.inputs.size(), sequence.weight);
    micro.tokens += std::ssize(sequence.inputs);
  }
  return micro;
}

}  // namespace accrue::data
