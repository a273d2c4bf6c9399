#include "models/files/tensors/named_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "accrue/core/error.h"
#include "accrue/core/memory_tag.h"
#include "accrue/memory/offload_passes.h"
#include "accrue/models/adapter_io.h"
#include "kernels/blocks/block_matrix.h"
#include "kernels/finite.h"

namespace accrue::models {
namespace {

struct Loading {
  const std::string& origin;
  const std::string& what;

  Error misfit(const std::string& tensor, const std::string& expected,
               const std::string& received) const {
    return misfit_of(origin, tensor, expected, received, what);
  }
};

using TensorsByName = std::unordered_map<std::string, const StoredTensor*>;

TensorsByName by_name(const StoredTensors& tensors, const Loading& loading) {
  TensorsByName result;
  for (const StoredTensor& tensor : tensors)
    if (!result.emplace(tensor.name, &tensor).second)
      throw loading.misfit(tensor.name, "it once", "it twice");
  return result;
}

/// The kind of numbers it holds, perhaps in blocks: kinds cannot replace each other.
const char* numbers_of(at::ScalarType dtype, at::IntArrayRef sizes) {
  if (at::isComplexType(dtype)) return "complex numbers";
  return at::isFloatingType(dtype) || kernels::is_in_blocks(dtype, sizes) ? "floating-point numbers"
                                                                          : "integers";
}

/// The sizes of the tensor's values: those of the matrix if it is in blocks.
std::vector<std::int64_t> unpacked_sizes(at::ScalarType dtype, at::IntArrayRef sizes) {
  if (!kernels::is_in_blocks(dtype, sizes)) return sizes.vec();
  const kernels::MatrixSize size = kernels::matrix_size(dtype, sizes);
  return {size.rows, size.columns};
}

/// Blocks have no NaN and no infinity that would show bad input.
void expect_packable(const std::string& name, const at::Tensor& values) {
  if (kernels::all_finite(values)) return;
  throw usage_error("pack \"" + name + "\" into blocks", "finite numbers",
                    "a NaN or an infinity among them",
                    "a checkpoint from before the training that made it diverged");
}

/// Copies what this process keeps of a tensor that is contiguous, or so after a transposition.
void copy_part(const StoredTensor& from, const at::Tensor& to) {
  const at::Tensor values = at::empty_strided(to.sizes(), to.strides(), to.options());
  from.copy_to(values);
  const ElementRange kept = memory::kept_part(to);
  const auto part = [&](const at::Tensor& tensor) {
    return tensor.as_strided({kept.elements}, {1}, tensor.storage_offset() + kept.begin);
  };
  part(to).copy_(part(values));
}

/// Copies the values, packing or unpacking them if one of the two is in blocks of a format that the
/// other does not have.
void copy_values(const StoredTensor& from, const at::Tensor& to) {
  if (memory::is_kept_in_part(to)) return copy_part(from, to);
  const bool from_blocks = kernels::is_in_blocks(from.dtype, from.shape),
             to_blocks = kernels::is_in_blocks(to);
  if (to.sizes() == from.shape && from_blocks == to_blocks) return from.copy_to(to);
  const at::Tensor values = from_blocks ? kernels::unpacked(from.read(), at::kFloat) : from.read();
  if (!to_blocks) {
    to.copy_(values);
    return;
  }
  expect_packable(from.name, values);
  kernels::pack_into(to, values);
}

void check_fits(const NamedParameter& target, const TensorsByName& given, const Loading& loading) {
  const auto found = given.find(target.name);
  if (found == given.end()) throw loading.misfit(target.name, "it to be there", "no such tensor");
  const StoredTensor& tensor = *found->second;
  const std::string numbers = numbers_of(target.tensor.scalar_type(), target.tensor.sizes());
  if (numbers != numbers_of(tensor.dtype, tensor.shape))
    throw loading.misfit(target.name, numbers, c10::toString(tensor.dtype));
  const std::vector<std::int64_t> expected =
      unpacked_sizes(target.tensor.scalar_type(), target.tensor.sizes());
  if (unpacked_sizes(tensor.dtype, tensor.shape) != expected)
    throw loading.misfit(target.name, "shape " + c10::str(at::IntArrayRef(expected)),
                         c10::str(at::IntArrayRef(tensor.shape)));
}

void check_nothing_extra(const NamedParameters& targets, const StoredTensors& given,
                         const Loading& loading) {
  std::unordered_set<std::string> known;
  for (const NamedParameter& target : targets) known.insert(target.name);
  for (const StoredTensor& tensor : given)
    if (!known.contains(tensor.name))
      throw loading.misfit(tensor.name, "only the tensors of this model", "one more");
}

}  // namespace

Error misfit_of(const std::string& origin, const std::string& tensor, const std::string& expected,
                const std::string& received, const std::string& what) {
  return usage_error("load " + origin + ", tensor \"" + tensor + '"', expected, received, what);
}

NamedParameters detached(const NamedParameters& parameters) {
  NamedParameters result;
  for (const auto& [name, tensor] : parameters) result.push_back({name, tensor.detach()});
  return result;
}

NamedParameters file_tensors_of(const NamedParameters& parameters, const NamedParameters& buffers) {
  NamedParameters tensors = detached(parameters);
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  return tensors;
}

void append_split(NamedParameters& tensors, const std::string& name, const at::Tensor& values) {
  constexpr std::string_view packed = ".qkv.";
  const std::size_t at = name.find(packed);
  if (at == std::string::npos) {
    tensors.push_back({name, values});
    return;
  }
  const std::string before = name.substr(0, at), after = name.substr(at + packed.size());
  const std::vector<at::Tensor> parts = values.chunk(3, 0);
  std::size_t part = 0;
  for (const char* own : {".query.", ".key.", ".value."})
    tensors.push_back({before + own + after, parts[part++]});
}

NamedParameters targets_of(const NamedParameters& file_tensors, const StoredTensors& given) {
  if (std::any_of(given.begin(), given.end(),
                  [](const StoredTensor& tensor) { return is_adapter_name(tensor.name); }))
    return file_tensors;
  NamedParameters base;
  for (const NamedParameter& tensor : file_tensors)
    if (!is_adapter_name(tensor.name)) base.push_back(tensor);
  return base;
}

void check_by_name(const NamedParameters& targets, const StoredTensors& given,
                   const std::string& origin, const std::string& what) {
  const Loading loading{origin, what};
  const TensorsByName tensors = by_name(given, loading);
  for (const NamedParameter& target : targets) check_fits(target, tensors, loading);
  check_nothing_extra(targets, given, loading);
}

void take_formats(const NamedParameters& parameters, const StoredTensors& given) {
  const MemoryTagScope tag(MemoryTag::parameters);
  std::unordered_map<std::string, at::Tensor> in_blocks;
  for (const NamedParameter& parameter : parameters)
    if (kernels::is_in_blocks(parameter.tensor))
      in_blocks.emplace(parameter.name, parameter.tensor);
  for (const StoredTensor& tensor : given) {
    const auto found = in_blocks.find(tensor.name);
    if (found == in_blocks.end() || !kernels::is_in_blocks(tensor.dtype, tensor.shape)) continue;
    if (found->second.sizes() != tensor.shape)
      found->second.set_(at::empty(tensor.shape, found->second.options()));
  }
}

void copy_by_name(const NamedParameters& targets, const StoredTensors& given,
                  const std::string& origin, const std::string& what) {
  check_by_name(targets, given, origin, what);
  const TensorsByName tensors = by_name(given, {origin, what});
  const at::NoGradGuard no_grad;
  for (const NamedParameter& target : targets) {
    memory::keep_only(target.tensor);
    copy_values(*tensors.at(target.name), target.tensor);
  }
}

}  // namespace accrue::models
