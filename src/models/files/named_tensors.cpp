#include "models/files/named_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "accrue/models/adapter_io.h"

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

void check_fits(const NamedParameter& target, const TensorsByName& given, const Loading& loading) {
  const auto found = given.find(target.name);
  if (found == given.end()) throw loading.misfit(target.name, "it to be there", "no such tensor");
  const StoredTensor& tensor = *found->second;
  const bool real = at::isFloatingType(target.tensor.scalar_type());
  if (real != at::isFloatingType(tensor.dtype))
    throw loading.misfit(target.name, real ? "floating-point numbers" : "integers",
                         c10::toString(tensor.dtype));
  if (tensor.shape != target.tensor.sizes())
    throw loading.misfit(target.name, "shape " + c10::str(target.tensor.sizes()),
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

NamedParameters targets_of(const NamedParameters& file_tensors, const StoredTensors& given) {
  if (std::any_of(given.begin(), given.end(),
                  [](const StoredTensor& tensor) { return is_adapter_name(tensor.name); }))
    return file_tensors;
  NamedParameters base;
  for (const NamedParameter& tensor : file_tensors)
    if (!is_adapter_name(tensor.name)) base.push_back(tensor);
  return base;
}

void copy_by_name(const NamedParameters& targets, const StoredTensors& given,
                  const std::string& origin, const std::string& what) {
  const Loading loading{origin, what};
  const TensorsByName tensors = by_name(given, loading);
  for (const NamedParameter& target : targets) check_fits(target, tensors, loading);
  check_nothing_extra(targets, given, loading);
  const at::NoGradGuard no_grad;
  for (const NamedParameter& target : targets) tensors.at(target.name)->copy_to(target.tensor);
}

}  // namespace accrue::models
