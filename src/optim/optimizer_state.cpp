#include "optimizer_state.h"

#include <ATen/ATen.h>

#include <sstream>

#include "accrue/core/error.h"

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

void require_fit(const StoredTensor& given, const at::Tensor& own) {
  if (given.shape == own.sizes() && given.dtype == own.scalar_type()) return;
  refuse_state(
      given.name + " as " + description(own.scalar_type(), own.sizes()),
      given.dtype == at::ScalarType::Undefined ? "nothing" : description(given.dtype, given.shape));
}

}  // namespace

OptimizerState::OptimizerState(const std::vector<Trained>& trained, std::vector<StateKind> kinds,
                               const StateOptions& options)
    : kinds_(std::move(kinds)), seed_(options.seed) {
  for (const Trained& entry : trained) {
    names_.push_back(entry.parameter.name);
    std::vector<KeptState>& states = states_.emplace_back();
    for (const StateKind& kind : kinds_)
      states.emplace_back(entry.parameter.tensor, kind.sign, options.precision);
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

NamedParameters OptimizerState::tensors() const {
  NamedParameters result{{kStepName, at::scalar_tensor(steps_, at::kLong)}};
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind)
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const KeptState& state = states_[i][kind];
      result.push_back({kinds_[kind].name + "." + names_[i], state.values()});
      if (state.scales().defined())
        result.push_back({kinds_[kind].name + "_scale." + names_[i], state.scales()});
    }
  return result;
}

void OptimizerState::load(const StoredTensors& given) {
  const NamedParameters own = tensors();
  std::unordered_map<std::string, const StoredTensor*> given_by_name;
  for (const StoredTensor& tensor : given)
    if (!given_by_name.emplace(tensor.name, &tensor).second)
      refuse_state("each tensor once", tensor.name + " twice");
  for (const auto& [name, tensor] : own) {
    const auto found = given_by_name.find(name);
    if (found == given_by_name.end()) refuse_state("the tensor " + name, "none of that name");
    require_fit(*found->second, tensor);
  }
  if (given_by_name.size() != own.size())
    for (const StoredTensor& tensor : given)
      if (std::none_of(own.begin(), own.end(),
                       [&](const auto& mine) { return mine.name == tensor.name; }))
        refuse_state("no tensor but this optimizer's", tensor.name);
  const auto steps = given_by_name.at(kStepName)->read().item<std::int64_t>();
  if (steps < 0) refuse_state("a step count of 0 or more", std::to_string(steps));

  const at::NoGradGuard no_grad;
  steps_ = steps;
  for (const auto& [name, tensor] : own)
    if (name != kStepName) given_by_name.at(name)->copy_to(tensor);
}

std::int64_t OptimizerState::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& states : states_)
    for (const KeptState& state : states) bytes += state.bytes();
  return bytes;
}

}  // namespace accrue::optim
