#include "optim/optimizer_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>

#include "accrue/core/error.h"
#include "accrue/memory/offload_passes.h"
#include "optim/dynamic_code.h"

namespace accrue::optim {
namespace {

constexpr const char* kStepName = "step";
/// Separates the words of stochastic rounding from other uses of the seed ("opt" in ASCII).
constexpr std::uint32_t kUse = 0x6F7074;

[[noreturn]] void refuse_state(const std::string& expected, const std::string& received) {
  throw usage_error("load optimizer state", expected, received,
                    "the state of the same optimizer over the same model");
}

std::string description(at::ScalarType dtype, at::IntArrayRef shape) {
  std::ostringstream text;
  text << c10::toString(dtype) << ' ' << shape;
  return text.str();
}

void require_fit(const StoredTensor& given, const StateRange& own) {
  const at::ScalarType dtype = own.values.scalar_type();
  if (given.shape == own.shape && given.dtype == dtype) return;
  refuse_state(
      given.name + " as " + description(dtype, own.shape),
      given.dtype == at::ScalarType::Undefined ? "nothing" : description(given.dtype, given.shape));
}

StateRange values_of(std::string name, const Trained& trained, const KeptState& state) {
  const at::Tensor& whole = trained.parameter.tensor;
  return {std::move(name), whole.sizes().vec(),
          trained.range.value_or(ElementRange{0, whole.numel()}), state.values()};
}

/// The place of the scales: one for each block of elements.
StateRange scales_of(std::string name, const Trained& trained, const KeptState& state) {
  constexpr auto block = static_cast<std::int64_t>(kStateBlock);
  const std::int64_t blocks = (trained.parameter.tensor.numel() + block - 1) / block;
  const std::int64_t begin = trained.range ? trained.range->begin / block : 0;
  return {std::move(name), {blocks}, {begin, state.scales().numel()}, state.scales()};
}

void take(const StateRange& own, const StoredTensor& whole) {
  const auto& [begin, elements] = own.range;
  if (at::IntArrayRef(own.shape) == own.values.sizes()) {
    whole.copy_to(own.values);
  } else if (elements > 0) {
    at::Tensor(own.values).copy_(whole.read().view({-1}).narrow(0, begin, elements));
  }
}

}  // namespace

OptimizerState::OptimizerState(const std::vector<Trained>& trained, std::vector<StateKind> kinds,
                               const StateOptions& options)
    : trained_(trained), kinds_(std::move(kinds)), seed_(options.seed) {
  for (const Trained& entry : trained_) {
    std::vector<KeptState>& states = states_.emplace_back();
    for (const StateKind& kind : kinds_)
      states.emplace_back(entry.parameter.tensor, kind.sign, options.precision, entry.range);
  }
}

RoundingStream OptimizerState::rounding(std::size_t parameter, std::size_t kind,
                                        std::uint32_t ordinal) const {
  const auto steps = static_cast<std::uint64_t>(steps_);
  return rounding_stream(
      seed_, kUse,
      {static_cast<std::uint32_t>(steps), static_cast<std::uint32_t>(steps >> 32),
       static_cast<std::uint32_t>(parameter * kinds_.size() + kind), ordinal});
}

std::vector<StateRange> OptimizerState::ranges() const {
  std::vector<StateRange> result;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind)
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const KeptState& state = states_[i][kind];
      const std::string& name = trained_[i].parameter.name;
      result.push_back(values_of(kinds_[kind].name + "." + name, trained_[i], state));
      if (state.scales().defined())
        result.push_back(scales_of(kinds_[kind].name + "_scale." + name, trained_[i], state));
    }
  return result;
}

NamedParameters OptimizerState::tensors() const {
  NamedParameters result{{kStepName, at::scalar_tensor(steps_, at::kLong)}};
  for (const StateRange& own : ranges()) result.push_back({own.name, own.values});
  return result;
}

void OptimizerState::load(const StoredTensors& given) {
  std::vector<StateRange> own = ranges();
  own.insert(own.begin(), StateRange{kStepName, {}, {0, 1}, at::scalar_tensor(steps_, at::kLong)});
  std::unordered_map<std::string, const StoredTensor*> given_by_name;
  for (const StoredTensor& tensor : given)
    if (!given_by_name.emplace(tensor.name, &tensor).second)
      refuse_state("each tensor once", tensor.name + " twice");
  for (const StateRange& mine : own) {
    const auto found = given_by_name.find(mine.name);
    if (found == given_by_name.end()) refuse_state("the tensor " + mine.name, "none of that name");
    require_fit(*found->second, mine);
  }
  if (given_by_name.size() != own.size())
    for (const StoredTensor& tensor : given)
      if (std::ranges::find(own, tensor.name, &StateRange::name) == own.end())
        refuse_state("no tensor but this optimizer's", tensor.name);
  const auto steps = given_by_name.at(kStepName)->read().item<std::int64_t>();
  if (steps < 0) refuse_state("a step count of 0 or more", std::to_string(steps));

  const at::NoGradGuard no_grad;
  steps_ = steps;
  for (const StateRange& mine : own) {
    if (mine.name == kStepName) continue;
    memory::keep_only(mine.values);
    take(mine, *given_by_name.at(mine.name));
  }
}

std::int64_t OptimizerState::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& states : states_)
    for (const KeptState& state : states) bytes += state.bytes();
  return bytes;
}

}  // namespace accrue::optim
