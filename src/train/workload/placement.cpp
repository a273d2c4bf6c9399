#include "train/workload/placement.h"

#include <ATen/ATen.h>

#include <cstdlib>
#include <string>

#include "accrue/core/error.h"
#include "accrue/core/memory_tag.h"
#include "accrue/device/device.h"

namespace accrue::train {
namespace {

/// The rank's number on its machine, as launchers set it.
std::string local_rank() {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"})
    if (const char* const number = std::getenv(name)) return number;
  return "0";
}

bool asks_for_cpu(const Config& config) {
  if (config.run.device) return *config.run.device == Device::cpu;
  return config.run.kernels == kernels::Kernels::native;
}

c10::Device stated_device(const Config& config) {
  if (asks_for_cpu(config)) return device::open("cpu");
  if (!config.run.device) return device::best();
  return device::open(std::string(device_words.of(*config.run.device)) + ":" + local_rank());
}

/// Products of fp16 are slow on CPUs. ATen's operators can compute them, for users who want to see
/// the results of training in fp16 before they have a GPU.
void expect_fp16_there(const Config& config, c10::Device device) {
  const bool is_tried = config.run.kernels == kernels::Kernels::generic;
  if (config.precision.compute != models::Compute::fp16 || !device.is_cpu() || is_tried) return;
  throw usage_error(
      "precision.compute = \"fp16\"",
      "a GPU: a CPU multiplies fp16 a hundred times slower than bf16", "the CPU",
      "compute = \"bf16\", run.device = \"cuda\", or run.kernels = \"generic\" to try "
      "fp16 with a small model");
}

}  // namespace

bool is_for_cpu(const Config& config) {
  return asks_for_cpu(config) || (!config.run.device && device::best().is_cpu());
}

c10::Device device_of(const Config& config) {
  const c10::Device device = stated_device(config);
  expect_fp16_there(config, device);
  return device;
}

void place(models::Model& model, c10::Device device) {
  const at::NoGradGuard no_grad;
  const MemoryTagScope tag(MemoryTag::parameters);
  for (const NamedParameters& tensors : {model.parameters(), model.buffers()})
    for (const NamedParameter& kept : tensors)
      if (kept.tensor.device() != device) at::Tensor(kept.tensor).set_data(kept.tensor.to(device));
}

c10::Device device_of(const models::Model& model) {
  return model.parameters().front().tensor.device();
}

std::int64_t bytes_of(const models::Model& model) {
  std::int64_t bytes = 0;
  for (const NamedParameters& tensors : {model.parameters(), model.buffers()})
    for (const NamedParameter& kept : tensors)
      bytes += static_cast<std::int64_t>(kept.tensor.nbytes());
  return bytes;
}

}  // namespace accrue::train
