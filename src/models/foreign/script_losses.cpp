#include "models/foreign/script_losses.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accrue/core/error.h"
#include "core/words.h"

namespace accrue::models {
namespace {

constexpr const char* what_to_return =
    "return the sum of the loss's terms and how many there are, as in \"return "
    "F.cross_entropy(logits, labels, reduction='sum'), torch.tensor(labels.numel())\": the mean of "
    "a micro-batch is not the batch's";

bool is_number(const c10::TypePtr& type) {
  return type->isSubtypeOf(*c10::TensorType::get()) || type->isSubtypeOf(*c10::NumberType::get());
}

/// (sum, weight).
bool is_loss(const c10::TypePtr& type) {
  const auto tuple = type->cast<c10::TupleType>();
  return tuple && tuple->elements().size() == 2 &&
         tuple->elements()[0]->isSubtypeOf(*c10::TensorType::get()) &&
         is_number(tuple->elements()[1]);
}

bool is_named_tuple_of_losses(const c10::TypePtr& type) {
  const auto tuple = type->cast<c10::TupleType>();
  return tuple && tuple->schema() && std::ranges::all_of(tuple->elements(), is_loss);
}

bool is_dict_of_losses(const c10::TypePtr& type) {
  const auto dict = type->cast<c10::DictType>();
  return dict && dict->getKeyType()->isSubtypeOf(*c10::StringType::get()) &&
         is_loss(dict->getValueType());
}

double number_of(const at::IValue& value) {
  if (!value.isTensor()) return value.toScalar().toDouble();
  const at::Tensor number = value.toTensor();
  if (number.numel() == 1) return number.item<double>();
  throw usage_error("losses of a TorchScript module", "a weight that is one number",
                    c10::str("a tensor ", number.sizes()), "sum() of it: how many terms there are");
}

/// The element `name` of a dict or NamedTuple; none if it does not have one.
std::optional<at::IValue> element(const at::IValue& result, const std::string& name) {
  if (result.isGenericDict()) {
    const auto dict = result.toGenericDict();
    const auto found = dict.find(name);
    return found == dict.end() ? std::nullopt : std::optional(found->value());
  }
  const std::vector<std::string> names = output_names(result.type());
  const auto found = std::ranges::find(names, name);
  if (!result.isTuple() || found == names.end()) return std::nullopt;
  return result.toTupleRef().elements()[static_cast<std::size_t>(found - names.begin())];
}

at::IValue expected_element(const at::IValue& result, const std::string& name,
                            const std::string& signature) {
  if (std::optional<at::IValue> found = element(result, name)) return std::move(*found);
  throw usage_error("losses of a TorchScript module", "one called \"" + name + '"',
                    "none from " + signature, "the names in loss.heads that the module returns");
}

Loss loss_of(const at::IValue& pair) {
  const auto& elements = pair.toTupleRef().elements();
  return {.sum = elements[0].toTensor(), .weight = number_of(elements[1])};
}

}  // namespace

ScriptLosses::ScriptLosses(const torch::jit::Module& module, const std::string& method,
                           const std::vector<ScriptLoss>& stated, const std::string& origin)
    : method_(module, method, origin),
      origin_(origin),
      is_single_(is_loss(method_.result())),
      heads_(heads_of(stated)) {
  const std::string weights = method + "_weights";
  if (module.find_method(weights)) weights_.emplace(module, weights, origin);
  if (heads_.size() == 1 || weights_) return;
  throw usage_error("load " + origin, weights + "(...), the weights of its several losses by name",
                    "a module without it",
                    "an exported method that counts their terms from the labels: a batch's "
                    "weights are needed before its first backward pass");
}

std::vector<ScriptLoss> ScriptLosses::heads_of(const std::vector<ScriptLoss>& stated) const {
  const auto refuse = [&](const std::string& expected, const std::string& received,
                          const std::string& suggestion) -> Error {
    return usage_error("load " + origin_, expected, received, suggestion);
  };
  const c10::TypePtr& type = method_.result();
  if (is_single_) {
    if (stated.size() > 1)
      throw refuse("one loss in loss.heads",
                   std::to_string(stated.size()) + " for " + method_.signature(),
                   "a dict or NamedTuple of name -> (sum, weight)");
    return stated.empty() ? std::vector{ScriptLoss{.name = "loss"}} : stated;
  }
  const bool tells_names = is_named_tuple_of_losses(type);
  if (!tells_names && !is_dict_of_losses(type))
    throw refuse("a loss as (sum, weight), or several by name", method_.signature(),
                 what_to_return);
  if (!stated.empty()) {
    const std::vector<std::string> names = output_names(type);
    for (const ScriptLoss& head : stated)
      if (tells_names && std::ranges::find(names, head.name) == names.end())
        throw refuse("a loss \"" + head.name + "\", as loss.heads has it", listed(names, "and"),
                     "the module's names in loss.heads");
    return stated;
  }
  if (!tells_names)
    throw refuse("the names of the losses in the dict, in loss.heads", "none",
                 R"(loss.heads = [{name = "a"}, {name = "b", coefficient = 0.1}])");
  std::vector<ScriptLoss> heads;
  for (const std::string& name : output_names(type)) heads.push_back({.name = name});
  return heads;
}

std::vector<Loss> ScriptLosses::losses_of(const at::IValue& result) const {
  if (is_single_) return {loss_of(result)};
  std::vector<Loss> losses;
  for (const ScriptLoss& head : heads_)
    losses.push_back(loss_of(expected_element(result, head.name, method_.signature())));
  return losses;
}

std::vector<NamedLoss> ScriptLosses::named(at::ScalarType dtype) const {
  std::vector<NamedLoss> losses;
  for (const ScriptLoss& head : heads_) {
    NamedLoss loss{.name = head.name, .coefficient = head.coefficient, .weight = {}};
    if (weights_)
      loss.weight = [weights = *weights_, name = head.name, is_single = is_single_,
                     dtype](const batch::MicroBatch& micro) {
        const at::NoGradGuard no_grad;
        const at::IValue result = weights.run(micro, dtype);
        const bool is_alone = is_single && (result.isTensor() || result.isScalar());
        return number_of(is_alone ? result : expected_element(result, name, weights.signature()));
      };
    losses.push_back(std::move(loss));
  }
  return losses;
}

}  // namespace accrue::models
