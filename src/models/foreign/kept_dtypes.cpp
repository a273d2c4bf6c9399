#include "models/foreign/kept_dtypes.h"

#include <ATen/ATen.h>

#include <unordered_map>

#include "accrue/core/error.h"
#include "models/files/tensors/safetensors_header.h"

namespace accrue::models {
namespace {

std::string in_words(const NamedParameter& tensor) {
  return "'" + tensor.name + "' of " + c10::toString(tensor.tensor.scalar_type());
}

void expect_in_files(const NamedParameters& tensors, const std::string& operation) {
  for (const NamedParameter& tensor : tensors)
    if (tensor.tensor.defined())
      dtype_name(tensor.tensor.scalar_type(), operation + ", tensor " + in_words(tensor));
}

}  // namespace

void convert_floating(const NamedParameters& tensors, at::ScalarType dtype) {
  for (const NamedParameter& named : tensors) {
    at::Tensor tensor = named.tensor;
    if (tensor.defined() && at::isFloatingType(tensor.scalar_type()) &&
        tensor.scalar_type() != dtype)
      tensor.set_data(tensor.detach().to(dtype));
  }
}

void expect_trainable_dtypes(const NamedParameters& parameters, const NamedParameters& buffers,
                             const std::string& operation) {
  for (const NamedParameter& parameter : parameters)
    if (parameter.tensor.requires_grad() && !at::isFloatingType(parameter.tensor.scalar_type()))
      throw usage_error(operation, "real numbers as parameters to train", in_words(parameter),
                        "a parameter of real and imaginary parts (torch.view_as_real), of which "
                        "the module makes the complex one, or a buffer if it is not trained");
  expect_in_files(parameters, operation);
  expect_in_files(buffers, operation);
}

StoredTensors with_whole_numbers(StoredTensors tensors, const NamedParameters& targets) {
  std::unordered_map<std::string, at::ScalarType> whole;
  for (const NamedParameter& target : targets)
    if (at::isIntegralType(target.tensor.scalar_type(), /*includeBool=*/true))
      whole.emplace(target.name, target.tensor.scalar_type());
  for (StoredTensor& tensor : tensors) {
    const auto found = whole.find(tensor.name);
    if (found != whole.end() && at::isFloatingType(tensor.dtype)) tensor.dtype = found->second;
  }
  return tensors;  // copying converts
}

}  // namespace accrue::models
