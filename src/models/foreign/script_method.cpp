#include "models/foreign/script_method.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <new>
#include <sstream>

#include "accrue/core/error.h"
#include "core/cause.h"
#include "core/words.h"

namespace accrue::models {
namespace {

bool is_tensor(const c10::TypePtr& type) {
  if (type->isSubtypeOf(*c10::TensorType::get())) return true;
  const auto optional = type->cast<c10::OptionalType>();
  return optional && optional->getElementType()->isSubtypeOf(*c10::TensorType::get());
}

bool is_labels(const std::string& name) { return name == "labels" || name == "targets"; }

/// The names of a tuple's elements, or their positions if it has none.
std::vector<std::string> names_of(const c10::TupleType& tuple) {
  std::vector<std::string> names;
  for (std::size_t place = 0; place < tuple.elements().size(); ++place)
    names.push_back(tuple.schema() ? tuple.schema()->arguments()[place].name()
                                   : std::to_string(place));
  return names;
}

Error no_output(const std::string& name, const std::vector<std::string>& there_are) {
  return usage_error("read what the TorchScript module returns",
                     name.empty() ? "one tensor" : "an output \"" + name + "\"",
                     there_are.empty() ? "one tensor without a name" : listed(there_are, "and"),
                     there_are.empty() ? "loss.heads without output"
                                       : "loss.heads with output = \"" + there_are.front() + '"');
}

at::Tensor tensor_of(const at::IValue& value, const std::string& name) {
  if (value.isTensor()) return value.toTensor();
  throw usage_error("read what the TorchScript module returns", "a tensor as \"" + name + '"',
                    value.type()->annotation_str(), "a forward that returns tensors");
}

std::string in_words(const torch::jit::Kwargs& arguments) {
  std::vector<std::string> words;
  for (const auto& [name, value] : arguments)
    words.push_back(
        c10::str(name, ' ', value.toTensor().scalar_type(), ' ', value.toTensor().sizes()));
  std::ranges::sort(words);
  return listed(words, "and");
}

/// The error for inputs that a module does not accept.
Error refused_by_module(const batch::MicroBatch& micro, const torch::jit::Kwargs& arguments,
                        const std::exception& error) {
  const std::string reason = cause_of(error);
  const bool has_one_value = reason.find("more than 1 value per channel") != std::string::npos;
  return runtime_error(
      "run the TorchScript module on " + accrue::counted(micro.inputs.size(0), "sample"),
      "a module that takes " + in_words(arguments), reason,
      has_one_value
          ? "batch.micro of 2 or more, and samples that it divides, where batch normalisation "
            "needs more than one value of a micro-batch"
          : "a module made for these data, or other data");
}

torch::jit::Method method_of(const torch::jit::Module& module, const std::string& name,
                             const std::string& origin) {
  if (const auto method = module.find_method(name)) return *method;
  throw usage_error("load " + origin, name + "(...) of tensors", "a module without " + name,
                    name == "forward" ? "scripting or tracing a module that has one"
                                      : "@torch.jit.export above it, or another loss.method");
}

}  // namespace

ScriptMethod::ScriptMethod(const torch::jit::Module& module, const std::string& name,
                           const std::string& origin)
    : method_(method_of(module, name, origin)), origin_(origin) {
  const auto& arguments = schema().arguments();  // the first is the module itself
  const bool all_by_name =
      std::all_of(arguments.begin() + 1, arguments.end(), [](const c10::Argument& argument) {
        return is_tensor(argument.type()) || argument.default_value();
      });
  if (arguments.size() > 1 && all_by_name) return;
  throw usage_error("load " + origin, name + "(...) of tensors", signature(),
                    "wrapping the module in one whose " + name + " takes tensors by name");
}

const c10::FunctionSchema& ScriptMethod::schema() const { return method_.function().getSchema(); }

const c10::TypePtr& ScriptMethod::result() const { return schema().returns().at(0).type(); }

std::string ScriptMethod::signature() const {
  std::ostringstream text;
  text << schema();
  return text.str();
}

torch::jit::Kwargs ScriptMethod::arguments(const batch::MicroBatch& micro,
                                           at::ScalarType dtype) const {
  torch::jit::Kwargs taken;
  const auto& arguments = schema().arguments();
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& name = arguments[i].name();
    if (!is_tensor(arguments[i].type())) continue;
    at::Tensor value = named_tensor(micro, name);
    if (!value.defined() && i == 1) value = micro.inputs;
    if (value.defined()) {
      // A copy: a module may work in place, and a pass may run again from the same micro-batch.
      const bool is_real = at::isFloatingType(value.scalar_type());
      taken[name] = value.to(is_real ? dtype : value.scalar_type(), /*non_blocking=*/false,
                             /*copy=*/true);
    } else if (!arguments[i].default_value()) {
      throw usage_error("run " + method_.name() + " of " + origin_, "data with \"" + name + '"',
                        columns_in_words(micro) + " for " + signature(),
                        "a field of that name in each line, and in data.columns, or a default in "
                        "the module");
    }
  }
  return taken;
}

at::IValue ScriptMethod::run(const batch::MicroBatch& micro, at::ScalarType dtype) const {
  const torch::jit::Kwargs taken = arguments(micro, dtype);
  // The optimising executor changes the graph after its first runs, and with it the last bits.
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);
  try {
    return method_({}, taken);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw refused_by_module(micro, taken, error);
  }
}

at::Tensor named_tensor(const batch::MicroBatch& micro, const std::string& name) {
  const auto column = micro.columns.find(name);
  if (column != micro.columns.end()) return column->second;
  if (is_labels(name)) return micro.targets;
  return name == "inputs" ? micro.inputs : at::Tensor();
}

std::string columns_in_words(const batch::MicroBatch& micro) {
  std::vector<std::string> names;
  for (const auto& [name, column] : micro.columns)
    if (name.find('/') == std::string::npos) names.push_back(name);  // no lengths of columns
  if (names.empty() && micro.inputs.defined()) names.emplace_back("inputs");
  if (names.empty() || (micro.columns.empty() && micro.targets.defined()))
    names.emplace_back("labels");
  return listed(names, "and");
}

std::vector<std::string> output_names(const c10::TypePtr& type) {
  const auto tuple = type->cast<c10::TupleType>();
  return tuple ? names_of(*tuple) : std::vector<std::string>();
}

at::Tensor named_output(const at::IValue& result, const std::string& name) {
  if (result.isTensor()) {
    if (name.empty()) return result.toTensor();
    throw no_output(name, {});
  }
  if (result.isGenericDict()) {
    std::vector<std::string> keys;
    for (const auto& entry : result.toGenericDict()) {
      if (!entry.key().isString()) break;
      if (entry.key().toStringRef() == name) return tensor_of(entry.value(), name);
      keys.push_back(entry.key().toStringRef());
    }
    std::ranges::sort(keys);
    throw no_output(name, keys);
  }
  const std::vector<std::string> names = output_names(result.type());
  const auto found = std::ranges::find(names, name);
  if (!result.isTuple() || found == names.end()) throw no_output(name, names);
  return tensor_of(result.toTupleRef().elements()[static_cast<std::size_t>(found - names.begin())],
                   name);
}

}  // namespace accrue::models
