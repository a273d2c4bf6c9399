#include "verify/module_subject.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <cmath>
#include <mutex>
#include <unordered_set>

#include "accrue/core/error.h"
#include "verify/comparison.h"
#include "verify/grad_hooks_detached.h"
#include "verify/modes.h"
#include "verify/running_errors.h"

namespace accrue {

at::Tensor batch_in_double(const at::Tensor& batch) {
  return batch.is_floating_point() ? batch.to(at::kDouble) : batch;
}

std::vector<at::Tensor> batch_in_double(const std::vector<at::Tensor>& batch) {
  std::vector<at::Tensor> converted;
  converted.reserve(batch.size());
  for (const at::Tensor& tensor : batch) converted.push_back(batch_in_double(tensor));
  return converted;
}

namespace batch {
MicroBatch batch_in_double(const MicroBatch& batch) {
  MicroBatch converted = batch;
  converted.inputs = accrue::batch_in_double(batch.inputs);
  if (batch.weights.defined()) converted.weights = accrue::batch_in_double(batch.weights);
  for (auto& [name, column] : converted.columns) column = accrue::batch_in_double(column);
  return converted;
}
}  // namespace batch

namespace proof {
namespace {

void require_finite(const Loss& loss) {
  if (!loss.sum.defined() || loss.sum.numel() != 1)
    throw usage_error("verify", "a loss with a scalar sum",
                      loss.sum.defined() ? c10::str(loss.sum.sizes()) : "no tensor",
                      "Loss{sum over the terms, how many there were}");
  const double sum = loss.sum.item<double>();
  if (std::isfinite(sum) && std::isfinite(loss.weight) && loss.weight >= 0) return;
  throw usage_error(
      "verify", "finite losses and weights of at least 0",
      "a sum of " + std::to_string(sum) + " and a weight of " + std::to_string(loss.weight),
      "looking at the data of this batch");
}

Loss scaled(Loss loss, double factor) {
  if (factor == 1 || !loss.sum.defined()) return loss;
  return {loss.sum * factor, loss.weight * factor};
}

/// The lowest floating-point dtype, below `own`, in the graph of `root`.
std::string lowest_dtype_below(const at::Tensor& root, at::ScalarType own) {
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<const torch::autograd::Node*> open{root.grad_fn().get()};
  std::string lowest;
  double worst = unit_roundoff(own);
  while (!open.empty()) {
    const auto* node = open.back();
    open.pop_back();
    if (!node || !seen.insert(node).second) continue;
    for (std::size_t i = 0; i < node->num_inputs(); ++i) {
      const at::ScalarType dtype = c10::typeMetaToScalarType(node->input_metadata(i).dtype());
      if (!at::isFloatingType(dtype) || unit_roundoff(dtype) <= worst) continue;
      worst = unit_roundoff(dtype);
      lowest = c10::toString(dtype);
    }
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return lowest;
}

/// In fp64 during its lifetime: the model's own tensors change their data.
class DoubleSubject : public ModuleSubject {
 public:
  /// `owned` first converts, so that the base class sees fp64 parameters.
  struct Converted {
    explicit Converted(const detail::VerifiedModel& original) : model(original) {
      model.loss = original.loss_in_double;
      for (const NamedParameters* tensors : {&model.parameters, &model.buffers})
        for (const NamedParameter& item : *tensors) convert(item.tensor);
    }
    ~Converted() {
      for (auto& [tensor, data] : originals) tensor.set_data(data);
    }
    void convert(at::Tensor tensor) {
      if (!tensor.defined() || !tensor.is_floating_point()) return;
      originals.emplace_back(tensor, tensor.detach());
      const at::Tensor grad = tensor.grad();
      tensor.mutable_grad().reset();
      tensor.set_data(tensor.detach().to(at::kDouble));
      grads.emplace_back(tensor, grad);
    }
    detail::VerifiedModel model;
    std::vector<std::pair<at::Tensor, at::Tensor>> originals, grads;
  };

  explicit DoubleSubject(std::unique_ptr<Converted> converted)
      : ModuleSubject(converted->model), converted_(std::move(converted)) {}
  ~DoubleSubject() override {
    const auto grads = converted_->grads;
    converted_.reset();
    for (const auto& [tensor, grad] : grads) tensor.mutable_grad() = grad;
  }

 private:
  std::unique_ptr<Converted> converted_;
};

}  // namespace

void seed_generator(std::uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

ModuleSubject::ModuleSubject(const detail::VerifiedModel& model)
    : model_(model), loss_(model.loss) {
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const NamedParameter& parameter : model.parameters)
    if (parameter.tensor.defined() && parameter.tensor.requires_grad() &&
        seen.insert(parameter.tensor.unsafeGetTensorImpl()).second)
      trained_.push_back(parameter);
  if (trained_.empty())
    throw usage_error("verify", "a model with parameters to train", "none",
                      "parameters that require a gradient");
}

Gradients ModuleSubject::one_pass(batch::Range part, const Conditions& conditions) {
  const KeepState keep(trained_, model_.buffers);
  const ModeScope mode(model_, conditions.mode);
  seed_generator(conditions.seed);
  const Loss loss = scaled(loss_(part.begin, part.end), conditions.weighting);
  require_finite(loss);
  if (conditions.mode == Mode::training) {
    buffers_moved_ = buffers_moved_ || keep.buffers_moved();
    low_precision_ = lowest_dtype_below(loss.sum, trained_.front().tensor.scalar_type());
  }

  Gradients result{.weight = loss.weight,
                   .loss_sum = loss.sum.item<double>(),
                   .terms = static_cast<double>(part.size()),
                   .loss_roundoff = unit_roundoff(loss.sum.scalar_type())};
  std::vector<at::Tensor> leaves;
  for (const NamedParameter& parameter : trained_) leaves.push_back(parameter.tensor);
  if (loss.sum.requires_grad()) {
    result.sums = torch::autograd::grad({loss.sum}, leaves, {}, std::nullopt, false, true);
  } else {
    result.sums.resize(leaves.size());
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    at::Tensor& sum = result.sums[i];
    if (!sum.defined()) sum = at::zeros_like(leaves[i]);
    if (sum.is_sparse())
      throw usage_error("verify", "dense gradients", "a sparse one, of " + trained_[i].name,
                        "turning off the embedding's 'sparse' option");
    if (!std::isfinite(l2_norm(sum)))
      throw usage_error("verify", "finite gradients", "one that is not, of " + trained_[i].name,
                        "looking at the data of this batch");
  }
  return result;
}

Gradients ModuleSubject::accumulated(const Parts& parts, const Conditions& conditions) {
  const KeepState keep(trained_, model_.buffers);
  const ModeScope mode(model_, conditions.mode);
  seed_generator(conditions.seed);
  const GradHooksDetached detached(trained_);
  Accumulator accumulator(trained_, {.check_finite = false});
  const auto& entries = accumulator.current_window().buffer()->entries();
  Gradients result;
  RunningErrors errors(*accumulator.current_window().buffer());
  for (const batch::Range part : parts) {
    const Loss loss = scaled(loss_(part.begin, part.end), conditions.weighting);
    require_finite(loss);
    accumulator.backward(loss);
    result.weight += loss.weight;
    result.loss_sum += loss.sum.item<double>();
    errors.added();
  }
  for (const auto& entry : entries) result.sums.push_back(sum_of(entry));
  result.accumulation_errors = errors.bounds();
  accumulator.discard();
  return result;
}

std::vector<std::string> ModuleSubject::batch_norms() const {
  return model_.batch_norms ? model_.batch_norms() : std::vector<std::string>{};
}

bool ModuleSubject::can(Mode mode) const {
  if (mode == Mode::training) return true;
  if (mode == Mode::evaluation) return model_.module != nullptr || model_.evaluate != nullptr;
  return (model_.module != nullptr || model_.freezes_batch_norms) && !batch_norms().empty();
}

std::unique_ptr<Subject> ModuleSubject::in_double() {
  if (!model_.loss_in_double || trained_.front().tensor.scalar_type() == at::kDouble)
    return nullptr;
  return std::make_unique<DoubleSubject>(std::make_unique<DoubleSubject::Converted>(model_));
}

}  // namespace proof
}  // namespace accrue
