#include "accrue/optim/torch_optimizer.h"

#include <ATen/ATen.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <sstream>
#include <unordered_set>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "accum/torch_step.h"

namespace accrue::optim {
namespace {

constexpr const char* state_name = "torch_optim";

void check_covered(const torch::optim::Optimizer& optimizer, const NamedParameters& parameters) {
  std::unordered_set<const c10::TensorImpl*> stepped;
  for (const auto& group : optimizer.param_groups())
    for (const at::Tensor& parameter : group.params())
      if (parameter.requires_grad()) stepped.insert(parameter.unsafeGetTensorImpl());
  std::size_t found = 0;
  for (const NamedParameter& parameter : parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    if (!stepped.contains(parameter.tensor.unsafeGetTensorImpl()))
      throw usage_error("train with an optimizer of torch::optim",
                        "one that steps every parameter that is trained",
                        "one without '" + parameter.name + "'",
                        "making it from model->parameters(), or freezing the others");
    ++found;
  }
  if (found != stepped.size())
    throw usage_error("train with an optimizer of torch::optim",
                      "one of the model's parameters alone",
                      std::to_string(stepped.size() - found) + " others in it",
                      "making it from model->parameters()");
}

class TorchOptimizer final : public Optimizer {
 public:
  TorchOptimizer(std::unique_ptr<torch::optim::Optimizer> optimizer, double base_lr)
      : optimizer_(std::move(optimizer)) {
    for (const auto& group : optimizer_->param_groups())
      factors_.push_back(group.options().get_lr() / base_lr);
  }

  void step(accum::MeanGradient&& gradient, double lr) override {
    for (std::size_t i = 0; i < factors_.size(); ++i)
      optimizer_->param_groups()[i].options().set_lr(lr * factors_[i]);
    accum::take_torch_step(*optimizer_, gradient);
  }

  NamedParameters state() const override { return {{state_name, bytes_of(saved())}}; }

  void load_state(const StoredTensors& state) override {
    const auto refuse = [](const std::string& received) {
      throw usage_error("load optimizer state", "the state of the same optimizer of torch::optim",
                        received, "the program that wrote it");
    };
    if (state.size() != 1 || state.front().name != state_name)
      refuse(state.empty() ? "none" : "'" + state.front().name + "'");
    const at::Tensor bytes = state.front().read().contiguous();
    torch::serialize::InputArchive archive;
    try {
      archive.load_from(static_cast<const char*>(bytes.const_data_ptr()),
                        static_cast<std::size_t>(bytes.nbytes()));
      optimizer_->load(archive);
    } catch (const c10::Error& error) {
      refuse(error.what_without_backtrace());
    }
  }

  std::int64_t state_bytes() const override { return static_cast<std::int64_t>(saved().size()); }

 private:
  std::string saved() const {
    torch::serialize::OutputArchive archive;
    optimizer_->save(archive);
    std::ostringstream text;
    archive.save_to(text);
    return std::move(text).str();
  }

  static at::Tensor bytes_of(const std::string& text) {
    const at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
    std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<std::uint8_t>());
    return bytes;
  }

  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<double> factors_;  ///< of each group's learning rate
};

}  // namespace

std::unique_ptr<Optimizer> from_torch(std::unique_ptr<torch::optim::Optimizer> optimizer,
                                      const NamedParameters& parameters, double base_lr) {
  check_covered(*optimizer, parameters);
  return std::make_unique<TorchOptimizer>(std::move(optimizer), base_lr);
}

}  // namespace accrue::optim
