#include "models/layers/parameter_builder.h"

#include <ATen/Parallel.h>

#include "accrue/core/memory_tag.h"
#include "core/rng.h"

namespace accrue::models {
namespace {

void fill(const at::Tensor& parameter, double standard_deviation, std::uint64_t seed,
          std::uint64_t stream) {
  const at::NoGradGuard no_grad;  // grad mode is per thread, and this runs on the pool's
  at::Tensor values = at::empty(parameter.sizes(), at::TensorOptions().dtype(at::kFloat));
  fill_normal({values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())}, seed,
              stream);
  parameter.copy_(values.mul_(standard_deviation));
}

}  // namespace

std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char character : name) {
    hash ^= static_cast<unsigned char>(character);
    hash *= 0x100000001b3;
  }
  return hash;
}

std::int64_t operations_of_products(const NamedParameters& parameters) {
  std::int64_t operations = 0;
  for (const NamedParameter& parameter : parameters)
    operations += (parameter.tensor.requires_grad() ? 6 : 4) * parameter.tensor.numel();
  return operations;
}

at::Tensor ParameterBuilder::constant(const std::string& name, std::vector<std::int64_t> shape,
                                      double value) {
  const MemoryTagScope tag(MemoryTag::parameters);
  const at::ScalarType dtype = shape.size() >= 2 ? matrices_ : dtype_;
  at::Tensor tensor = at::full(shape, value, at::TensorOptions().dtype(dtype));
  tensor.set_requires_grad(trained_);
  parameters_.push_back({name, tensor});
  return tensor;
}

at::Tensor ParameterBuilder::normal(const std::string& name, std::vector<std::int64_t> shape,
                                    double standard_deviation) {
  pending_.push_back({parameters_.size(), standard_deviation});
  return constant(name, std::move(shape), 0);
}

void ParameterBuilder::draw(std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(pending_.size());
  at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Pending& next = pending_[static_cast<std::size_t>(i)];
      const NamedParameter& parameter = parameters_[next.index];
      fill(parameter.tensor, next.standard_deviation, seed, stream_of(parameter.name));
    }
  });
  pending_.clear();
}

}  // namespace accrue::models
