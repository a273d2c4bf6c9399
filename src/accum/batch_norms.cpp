#include "accrue/accum/batch_norms.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/modules/batchnorm.h>

namespace accrue::accum {
namespace {

template <class Layer>
bool normalises_by_what_it_is_given(const torch::nn::Module& module) {
  const auto* layer = module.as<Layer>();
  return layer != nullptr && (layer->is_training() || !layer->options.track_running_stats());
}

bool takes_batch_statistics(const torch::nn::Module& module) {
  return normalises_by_what_it_is_given<torch::nn::BatchNorm1dImpl>(module) ||
         normalises_by_what_it_is_given<torch::nn::BatchNorm2dImpl>(module) ||
         normalises_by_what_it_is_given<torch::nn::BatchNorm3dImpl>(module);
}

std::vector<std::string> names_of(const torch::nn::Module& module,
                                  bool (*accepts)(const torch::nn::Module&)) {
  std::vector<std::string> names;
  for (const auto& part : module.named_modules("", /*include_self=*/false))
    if (accepts(*part.value())) names.push_back(part.key());
  return names;
}

}  // namespace

bool is_batch_norm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1dImpl>() || module.as<torch::nn::BatchNorm2dImpl>() ||
         module.as<torch::nn::BatchNorm3dImpl>();
}

std::vector<std::string> batch_norms_of(const torch::nn::Module& module) {
  return names_of(module, is_batch_norm);
}

std::vector<std::string> batch_norms_in_training(const torch::nn::Module& module) {
  return names_of(module, takes_batch_statistics);
}

std::vector<std::string> batch_norms_in_training(const torch::jit::Module& module) {
  std::vector<std::string> names;
  for (const auto& part : module.named_modules()) {
    const std::string type = part.value.type()->name()->qualifiedName();
    if (part.value.is_training() && type.find("torch.nn.modules.batchnorm.") != std::string::npos)
      names.push_back(part.name);
  }
  return names;
}

}  // namespace accrue::accum
