#include "distributed/compress/named_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "accrue/core/error.h"

namespace accrue::distributed {
namespace {

[[noreturn]] void refuse(const std::string& operation, const std::string& expected,
                         const std::string& received) {
  throw usage_error(operation, expected, received,
                    "the state of this configuration and world size");
}

const StoredTensor& find_fitting(const NamedParameter& own, const StoredTensors& given,
                                 const std::string& operation) {
  const auto found = std::ranges::find(given, own.name, &StoredTensor::name);
  if (found == given.end()) refuse(operation, "the tensor " + own.name, "none of that name");
  if (found->dtype != own.tensor.scalar_type() || own.tensor.sizes() != found->shape)
    refuse(operation, own.name + " as " + in_words(own.tensor.scalar_type(), own.tensor.sizes()),
           in_words(found->dtype, found->shape));
  return *found;
}

}  // namespace

void load_by_name(const NamedParameters& own, const StoredTensors& given,
                  const std::string& operation) {
  std::vector<const StoredTensor*> fitting;
  for (const NamedParameter& tensor : own)
    fitting.push_back(&find_fitting(tensor, given, operation));
  for (const StoredTensor& tensor : given)
    if (std::ranges::find(fitting, &tensor) == fitting.end())
      refuse(operation, "each tensor once and no other", tensor.name);

  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < own.size(); ++i) fitting[i]->copy_to(own[i].tensor);
}

std::string in_words(at::ScalarType dtype, at::IntArrayRef shape) {
  std::ostringstream text;
  text << at::toString(dtype) << " " << shape;
  return text.str();
}

}  // namespace accrue::distributed
