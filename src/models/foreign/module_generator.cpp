#include "models/foreign/module_generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "core/rng.h"

namespace accrue::models {

ModuleGenerator::ModuleGenerator(const ForwardContext& context, std::uint64_t site) {
  if (!context.training) return;
  const auto sample =
      static_cast<std::uint64_t>(context.sample_ids.empty() ? 0 : context.sample_ids.front());
  const std::uint64_t of_window =
      random_word(context.seed, site, static_cast<std::uint64_t>(context.window));
  before_.emplace(GeneratorSnapshot());
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(random_word(of_window, site, sample));
}

}  // namespace accrue::models
