#include "train/window/noise_meter.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace accrue::train {
namespace {

/// The sums of ranks, in this order; the squares of the blocks follow.
enum NoiseFigure { kParts, kInverseWeights, kSquares, kSquaresInGeometry, kBlocks };

constexpr const char* second_moment_prefix = "exp_avg_sq.";

bool is_number(const std::string& part) {
  return !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string block_of_parameter(const std::string& name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    if (is_number(name.substr(begin, end - begin))) return name.substr(0, end);
    begin = end + 1;
  }
  const std::size_t last = name.rfind('.');
  return last == name.npos ? name : name.substr(0, last);
}

NoiseMeter::NoiseMeter(const accum::GradientBuffer& buffer, const optim::Optimizer& optimizer,
                       const Options& options)
    : buffer_(buffer), options_(options) {
  if (options_.geometry == NoiseGeometry::optimizer) take_second_moments(optimizer);
  if (options_.geometry == NoiseGeometry::euclidean) options_.geometry.reset();
  if (options_.detail == NoiseDetail::blocks) name_blocks();
  sums_.assign(kBlocks + block_names_.size(), 0);
}

/// If an optimizer keeps none, or not in fp32, the Euclidean norm is used.
void NoiseMeter::take_second_moments(const optim::Optimizer& optimizer) {
  std::map<std::string, at::Tensor> moments;
  for (const NamedParameter& state : optimizer.state())
    if (state.name.starts_with(second_moment_prefix) && state.tensor.scalar_type() == at::kFloat)
      moments[state.name.substr(std::string(second_moment_prefix).size())] = state.tensor;
  for (const accum::GradientBuffer::Entry& entry : buffer_.entries()) {
    const auto found = moments.find(entry.name);
    if (found == moments.end() || found->second.numel() != entry.parameter.numel()) {
      options_.geometry.reset();
      remark_ =
          "noise is measured in the Euclidean norm: this optimizer has no whole second moments in "
          "fp32 (optim.kind, optim.state, dist.shard)";
      return;
    }
    preconditioner_.second_moments.push_back(found->second.contiguous());
  }
  preconditioner_.eps = options_.eps;
}

void NoiseMeter::name_blocks() {
  for (const accum::GradientBuffer::Entry& entry : buffer_.entries()) {
    const std::string block = block_of_parameter(entry.name);
    const auto known = std::ranges::find(block_names_, block);
    block_of_entry_.push_back(static_cast<std::size_t>(known - block_names_.begin()));
    if (known == block_names_.end()) block_names_.push_back(block);
  }
}

void NoiseMeter::begin(std::int64_t steps, bool is_counted) {
  steps_ = steps;
  is_counted_ = is_counted;
  std::ranges::fill(sums_, 0);
  preconditioner_.correction =
      1 / std::sqrt(1 - std::pow(options_.beta2, std::max<double>(1, static_cast<double>(steps))));
}

/// Second moments are 0 before the first step.
bool NoiseMeter::measures_geometry() const {
  return options_.geometry && (options_.geometry == NoiseGeometry::sign || steps_ > 0);
}

double NoiseMeter::square_in_geometry() const {
  if (options_.geometry == NoiseGeometry::optimizer)
    return accum::preconditioned_square(buffer_, preconditioner_);
  const double sum = accum::absolute_sum(buffer_);
  return sum * sum;
}

std::vector<double> NoiseMeter::squares_of_blocks(const std::vector<double>& of_entries) const {
  std::vector<double> squares(block_names_.size(), 0);
  if (squares.empty()) return squares;
  for (std::size_t i = 0; i < of_entries.size(); ++i) squares[block_of_entry_[i]] += of_entries[i];
  return squares;
}

void NoiseMeter::see_part(double weight, double loss_scale) {
  if (!is_counted_ || !(weight > 0)) return;
  const double factor = 1 / (weight * loss_scale), scale = factor * factor;
  const std::vector<double> of_entries = accum::squared_norms(buffer_);
  double total = 0;
  for (const double square : of_entries) total += square;
  sums_[kParts] = 1;
  sums_[kInverseWeights] = 1 / weight;
  sums_[kSquares] = total * scale;
  if (measures_geometry()) sums_[kSquaresInGeometry] = square_in_geometry() * scale;
  const std::vector<double> blocks = squares_of_blocks(of_entries);
  for (std::size_t i = 0; i < blocks.size(); ++i) sums_[kBlocks + i] = blocks[i] * scale;
}

/// Sums with another set of figures than the present one cannot be used.
void NoiseMeter::take_up(const std::vector<double>& sums) {
  if (sums.size() == sums_.size()) sums_ = sums;
}

std::optional<NoiseReading> NoiseMeter::read(const std::vector<double>& sums,
                                             accum::MeanGradient& gradient) const {
  if (sums.size() != sums_.size() || sums[kParts] < 1 || !gradient.has_values())
    return std::nullopt;
  const double parts = sums[kParts];
  const auto estimate = [&](double square, double part_squares) {
    return adapt::estimate_noise({.weight = gradient.weight(),
                                  .squared_norm = square,
                                  .part_squared_norm = part_squares / parts,
                                  .part_inverse_weight = sums[kInverseWeights] / parts});
  };
  const double norm = gradient.norm();
  const auto total = estimate(norm * norm, sums[kSquares]);
  if (!total) return std::nullopt;
  NoiseReading reading{.total = *total};
  if (gradient.shard() != nullptr) return reading;
  const double scale = gradient.scale() * gradient.scale();
  if (measures_geometry())
    reading.in_geometry = estimate(square_in_geometry() * scale, sums[kSquaresInGeometry]);
  if (block_names_.empty()) return reading;
  const std::vector<double> blocks = squares_of_blocks(accum::squared_norms(buffer_));
  for (std::size_t i = 0; i < blocks.size(); ++i)
    reading.blocks.push_back(estimate(blocks[i] * scale, sums[kBlocks + i]));
  return reading;
}

}  // namespace accrue::train
