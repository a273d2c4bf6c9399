#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

#include "accrue/batch/micro_batch.h"

namespace accrue::models {

/// A method of a TorchScript module that takes a micro-batch, its arguments by name: each is the
/// column of that name; else the first is micro.inputs, and "labels" or "targets" is
/// micro.targets; else it keeps its default.
class ScriptMethod {
 public:
  /// Throws a usage Error with the signature found if the module has no such method, or one with an
  /// argument that is not a tensor and has no default; `origin` is the module's file.
  ScriptMethod(const torch::jit::Module& module, const std::string& name,
               const std::string& origin);

  /// Runs the method on copies of its arguments in `micro`, floating-point ones as `dtype`. Throws
  /// a usage Error that lists the columns if one is missing, and a runtime Error if the module does
  /// not accept them; lack of memory is rethrown unchanged.
  at::IValue run(const batch::MicroBatch& micro, at::ScalarType dtype) const;

  const c10::TypePtr& result() const;
  /// "forward(Tensor x) -> Tensor", for people.
  std::string signature() const;

 private:
  const c10::FunctionSchema& schema() const;
  torch::jit::Kwargs arguments(const batch::MicroBatch& micro, at::ScalarType dtype) const;

  torch::jit::Method method_;
  std::string origin_;
};

/// The data under a name: a column, or "inputs", "labels" and "targets", which every micro-batch
/// may have; undefined if there is nothing.
at::Tensor named_tensor(const batch::MicroBatch& micro, const std::string& name);
/// "columns input_ids and labels", for people.
std::string columns_in_words(const batch::MicroBatch& micro);

/// The tensor `name` of a method's result: a key of a dict, a field of a NamedTuple, a position in
/// a tuple; empty: the only tensor. Throws a usage Error that lists what there is.
at::Tensor named_output(const at::IValue& result, const std::string& name);
/// The names in a result of this type; empty if only a run shows them (dicts).
std::vector<std::string> output_names(const c10::TypePtr& type);

}  // namespace accrue::models
