#include "models/layers/parameter_builder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "accrue/core/error.h"
#include "accrue/core/memory_tag.h"
#include "accrue/memory/offload_passes.h"
#include "core/rng.h"
#include "kernels/blocks/block_matrix.h"

namespace accrue::models {
namespace {

std::vector<std::int64_t> sizes_of(const kernels::MatrixSize& size) {
  return {size.rows, size.columns};
}

std::vector<std::int64_t> sizes_in_blocks(const std::string& name, BaseFormat base,
                                          kernels::BlockFormat format,
                                          const kernels::MatrixSize& size) {
  const std::int64_t elements = kernels::size_of(format).elements;
  if (size.columns % elements != 0)
    throw usage_error("model.base = \"" + std::string(to_string(base)) + '"',
                      "matrices with rows of a multiple of " + std::to_string(elements) +
                          " numbers, as its blocks are",
                      name + " with rows of " + std::to_string(size.columns),
                      size.columns % kernels::size_of(kernels::BlockFormat::q8_0).elements == 0
                          ? "base = \"q8_0\", whose blocks have 32"
                          : "base = \"bf16\"");
  return kernels::sizes_in_blocks(format, size);
}

/// Bytes of offloaded parameters that are drawn at a time.
constexpr std::int64_t kDrawnBytes = std::int64_t{64} << 20;

/// Elements of a tensor in fp32 on the CPU, which need not begin with its first.
void draw_elements(const at::Tensor& elements, std::int64_t first, double standard_deviation,
                   std::uint64_t seed, std::uint64_t stream) {
  fill_normal({elements.mutable_data_ptr<float>(), static_cast<std::size_t>(elements.numel())},
              seed, stream, static_cast<std::uint64_t>(first));
  at::Tensor(elements).mul_(standard_deviation);
}

/// Draws what this process keeps of the parameter. State that lies in a file or is divided is drawn
/// without a copy: memory does not suffice for a second large matrix.
void draw_kept(const at::Tensor& parameter, double standard_deviation, std::uint64_t seed,
               std::uint64_t stream) {
  const ElementRange kept = memory::kept_part(parameter);
  const at::Tensor target = parameter.detach().view({-1}).narrow(0, kept.begin, kept.elements);
  const bool in_place = memory::is_offloaded(parameter) || memory::is_in_shard_scope(parameter);
  if (in_place && parameter.scalar_type() == at::kFloat)
    return draw_elements(target, kept.begin, standard_deviation, seed, stream);
  const at::Tensor values = at::empty({kept.elements}, at::TensorOptions().dtype(at::kFloat));
  draw_elements(values, kept.begin, standard_deviation, seed, stream);
  target.copy_(values);
}

void draw_values(const at::Tensor& parameter, double standard_deviation, std::uint64_t seed,
                 std::uint64_t stream) {
  const at::NoGradGuard no_grad;  // grad mode is per thread, and this runs on the pool's
  if (!kernels::is_in_blocks(parameter))
    return draw_kept(parameter, standard_deviation, seed, stream);
  const at::Tensor values =
      at::empty(sizes_of(kernels::matrix_size(parameter)), at::TensorOptions().dtype(at::kFloat));
  draw_elements(values, 0, standard_deviation, seed, stream);
  kernels::pack_into(parameter, values);
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
    operations +=
        (parameter.tensor.requires_grad() ? 6 : 4) * kernels::element_count(parameter.tensor);
  return operations;
}

std::optional<kernels::BlockFormat> block_format_of(BaseFormat base) {
  if (base == BaseFormat::q8_0) return kernels::BlockFormat::q8_0;
  if (base == BaseFormat::q4_k) return kernels::BlockFormat::q4_k;
  return std::nullopt;
}

at::Tensor ParameterBuilder::constant(const std::string& name, std::vector<std::int64_t> shape,
                                      double value) {
  const at::ScalarType dtype = shape.size() >= 2 ? matrices_ : dtype_;
  return made(name, std::move(shape), dtype, value);
}

at::Tensor ParameterBuilder::normal(const std::string& name, std::vector<std::int64_t> shape,
                                    double standard_deviation) {
  pending_.push_back({parameters_.size(), standard_deviation});
  return constant(name, std::move(shape), 0);
}

at::Tensor ParameterBuilder::weight(const std::string& name, std::int64_t rows,
                                    std::int64_t columns, double standard_deviation) {
  pending_.push_back({parameters_.size(), standard_deviation});
  if (const auto format = block_format_of(base_))
    return made(name, sizes_in_blocks(name, base_, *format, {rows, columns}), at::kByte, 0);
  return made(name, {rows, columns}, base_ == BaseFormat::bf16 ? at::kBFloat16 : matrices_, 0);
}

at::Tensor ParameterBuilder::made(const std::string& name, std::vector<std::int64_t> shape,
                                  at::ScalarType dtype, double value) {
  const MemoryTagScope tag(MemoryTag::parameters);
  const at::Device device = makes_values() ? at::kCPU : at::kMeta;
  const at::TensorOptions options = at::TensorOptions().dtype(dtype).device(device);
  at::Tensor tensor = value == 0 ? memory::zeros(shape, options) : at::full(shape, value, options);
  tensor.set_requires_grad(trained_);
  if (trained_) memory::keep_part(tensor, trained_count_++);
  parameters_.push_back({name, tensor});
  return tensor;
}

void ParameterBuilder::draw(std::uint64_t seed) {
  if (!makes_values()) pending_.clear();
  const std::vector<Group> groups = groups_to_draw();
  const auto parameter = [this](std::size_t pending) -> const NamedParameter& {
    return parameters_[pending_[pending].index];
  };
  memory::for_parts(
      groups.size(),
      [&](std::size_t group) {
        std::vector<at::Tensor> tensors;
        for (std::size_t i = groups[group].begin; i < groups[group].end; ++i)
          tensors.push_back(parameter(i).tensor);
        return tensors;
      },
      [&](std::size_t group) {
        at::parallel_for(static_cast<std::int64_t>(groups[group].begin),
                         static_cast<std::int64_t>(groups[group].end), 1,
                         [&](std::int64_t begin, std::int64_t end) {
                           for (auto i = static_cast<std::size_t>(begin);
                                i < static_cast<std::size_t>(end); ++i)
                             draw_values(parameter(i).tensor, pending_[i].standard_deviation, seed,
                                         stream_of(parameter(i).name));
                         });
      });
  pending_.clear();
}

/// Parameters in memory do not count: without offloaded ones, all are one group.
std::vector<ParameterBuilder::Group> ParameterBuilder::groups_to_draw() const {
  std::vector<Group> groups;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const at::Tensor& tensor = parameters_[pending_[i].index].tensor;
    const auto more = memory::is_offloaded(tensor) ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
    bytes += more;
    if (groups.empty() || (more > 0 && bytes > kDrawnBytes)) {
      groups.push_back({i, i});
      bytes = more;
    }
    groups.back().end = i + 1;
  }
  return groups;
}

}  // namespace accrue::models
