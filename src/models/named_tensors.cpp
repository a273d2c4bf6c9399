#include "named_tensors.h"

#include <ATen/ATen.h>

#include <unordered_map>
#include <unordered_set>

#include "accrue/core/error.h"

namespace accrue::models {
namespace {

struct Loading {
  const std::string& origin;
  const std::string& what;

  Error misfit(const std::string& tensor, const std::string& expected,
               const std::string& received) const {
    return usage_error("load " + origin + ", tensor \"" + tensor + '"', expected, received, what);
  }
};

using TensorsByName = std::unordered_map<std::string, at::Tensor>;

TensorsByName by_name(const NamedParameters& tensors, const Loading& loading) {
  TensorsByName result;
  for (const auto& [name, tensor] : tensors)
    if (!result.emplace(name, tensor).second) throw loading.misfit(name, "it once", "it twice");
  return result;
}

void check_fits(const NamedParameter& target, const TensorsByName& given, const Loading& loading) {
  const auto found = given.find(target.name);
  if (found == given.end()) throw loading.misfit(target.name, "it to be there", "no such tensor");
  const at::Tensor& tensor = found->second;
  const bool real = at::isFloatingType(target.tensor.scalar_type());
  if (real != at::isFloatingType(tensor.scalar_type()))
    throw loading.misfit(target.name, real ? "floating-point numbers" : "integers",
                         c10::toString(tensor.scalar_type()));
  if (tensor.sizes() != target.tensor.sizes())
    throw loading.misfit(target.name, "shape " + c10::str(target.tensor.sizes()),
                         c10::str(tensor.sizes()));
}

void check_nothing_extra(const NamedParameters& targets, const NamedParameters& given,
                         const Loading& loading) {
  std::unordered_set<std::string> known;
  for (const NamedParameter& target : targets) known.insert(target.name);
  for (const NamedParameter& tensor : given)
    if (!known.contains(tensor.name))
      throw loading.misfit(tensor.name, "only the tensors of this model", "one more");
}

}  // namespace

void copy_by_name(const NamedParameters& targets, const NamedParameters& given,
                  const std::string& origin, const std::string& what) {
  const Loading loading{origin, what};
  const TensorsByName tensors = by_name(given, loading);
  for (const NamedParameter& target : targets) check_fits(target, tensors, loading);
  check_nothing_extra(targets, given, loading);
  const at::NoGradGuard no_grad;
  for (const NamedParameter& target : targets) target.tensor.copy_(tensors.at(target.name));
}

}  // namespace accrue::models
