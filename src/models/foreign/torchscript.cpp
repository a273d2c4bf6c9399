#include "accrue/models/torchscript.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/core/memory_tag.h"
#include "core/atomic_file.h"
#include "core/cause.h"
#include "core/sha256.h"
#include "core/words.h"
#include "models/files/tensors/named_tensors.h"
#include "models/foreign/foreign_passes.h"
#include "models/foreign/kept_dtypes.h"
#include "models/foreign/module_generator.h"
#include "models/foreign/own_losses.h"
#include "models/foreign/script_heads.h"
#include "models/foreign/script_losses.h"
#include "models/foreign/script_method.h"
#include "models/foreign/torchscript_graph.h"

namespace accrue::models {
namespace {

at::ScalarType dtype_of(const TorchScriptOptions& options) {
  return options.compute == Compute::fp64 ? at::kDouble : at::kFloat;
}

NamedParameters list(const torch::jit::named_parameter_list& tensors) {
  NamedParameters result;
  for (const auto& entry : tensors) result.push_back({entry.name, entry.value});
  return result;
}

NamedParameters list(const torch::jit::named_buffer_list& tensors) {
  NamedParameters result;
  for (const auto& entry : tensors) result.push_back({entry.name, entry.value});
  return result;
}

/// Makes parameters contiguous, as the optimizer's pass in place needs them.
void make_contiguous(const torch::jit::Module& module) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : module.parameters())
    if (!parameter.is_contiguous()) parameter.set_data(parameter.contiguous());
}

/// Without this flag the interpreter turns every exception in a module into a std::runtime_error,
/// and no caller can recognize lack of memory. libtorch has this only for the whole process.
void let_errors_through() { FLAGS_torch_jit_enable_rethrow_caught_exception = true; }

struct Loaded {
  torch::jit::Module module;
  std::string digest;
};

Loaded load(const TorchScriptOptions& options) {
  const at::ScalarType dtype = dtype_of(options);
  const std::string file = options.file.string();
  if (!std::filesystem::is_regular_file(options.file))
    throw usage_error("load " + file, "a TorchScript file", "no such file",
                      "the path of a file that torch.jit.save wrote");
  std::string bytes = read_file(options.file);
  std::string digest = sha256_of(bytes);
  if (options.admit) options.admit(digest);
  let_errors_through();
  try {
    const MemoryTagScope tag(MemoryTag::parameters);
    std::istringstream stream(std::move(bytes));
    torch::jit::Module module = torch::jit::load(stream, at::kCPU);
    // Module::to(dtype) of libtorch converts every tensor, whole numbers and complex ones too.
    convert_floating(list(module.named_parameters()), dtype);
    convert_floating(list(module.named_buffers()), dtype);
    make_contiguous(module);
    return {std::move(module), std::move(digest)};
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    throw usage_error(
        "load " + file, "a TorchScript file", cause_of(error),
        "torch.jit.script(model).save(\"model.pt\") in Python, of the module itself: what "
        "torch.save writes is its Python object or its weights alone");
  }
}

/// The default if no losses are stated: one, of the only output against the labels.
std::vector<ScriptLoss> stated_or_usual(const TorchScriptOptions& options) {
  if (!options.heads.empty() || !options.method.empty()) return options.heads;
  return {{.name = "cross_entropy"}};
}

bool contains(const std::vector<ForeignLayer>& layers, ForeignLayer::Kind kind) {
  return std::ranges::any_of(layers, [&](const ForeignLayer& layer) { return layer.kind == kind; });
}

}  // namespace

struct TorchScriptModel::Impl {
  std::string origin, digest;
  torch::jit::Module module;
  at::ScalarType dtype;
  LossOptions loss;
  std::vector<ScriptLoss> heads;
  std::optional<ScriptLosses> own;      ///< of the module's own loss
  std::optional<ScriptMethod> forward;  ///< if it has no own loss
  NamedParameters parameters, buffers;
  std::vector<ForeignLayer> foreign;
  ForeignPasses passes;

  explicit Impl(const TorchScriptOptions& options) : Impl(options, load(options)) {}

  Impl(const TorchScriptOptions& options, Loaded loaded)
      : origin(options.file.string()),
        digest(std::move(loaded.digest)),
        module(std::move(loaded.module)),
        dtype(dtype_of(options)),
        loss(options.loss),
        heads(stated_or_usual(options)),
        parameters(list(module.named_parameters())),
        buffers(list(module.named_buffers())),
        passes(options.compute) {
    if (options.method.empty()) {
      forward.emplace(module, "forward", origin);
      check_outputs(*forward, outputs_read(heads), origin);
    } else {
      own.emplace(module, options.method, heads, origin);
    }
    check_parameters();
    expect_trainable_dtypes(parameters, buffers, "load " + origin);
    foreign = layers_in_graph(module, own ? options.method : "forward");
  }

  /// The outputs that the losses read, or the module's own losses.
  Activations run(const batch::MicroBatch& micro, const ForwardContext& context) {
    if (module.is_training() != context.training) module.train(context.training);
    const ModuleGenerator generator(context, 0);
    const at::IValue result = (own ? own->method() : *forward).run(micro, dtype);
    if (own) return activations_of(own->losses_of(result), origin);
    Activations outputs;
    for (const std::string& name : outputs_read(heads))
      outputs.push_back(named_output(result, name));
    return outputs;
  }

 private:
  void check_parameters() const {
    if (std::ranges::any_of(parameters,
                            [](const NamedParameter& p) { return p.tensor.requires_grad(); }))
      return;
    throw usage_error("load " + origin, "parameters to train",
                      parameters.empty() ? "none" : "frozen ones only",
                      "a module that was not frozen (torch.jit.freeze turns weights into "
                      "constants)");
  }
};

TorchScriptModel::TorchScriptModel(const TorchScriptOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}

TorchScriptModel::~TorchScriptModel() = default;

NamedParameters TorchScriptModel::parameters() const { return impl_->parameters; }
NamedParameters TorchScriptModel::buffers() const { return impl_->buffers; }
std::vector<ForeignLayer> TorchScriptModel::foreign_layers() const {
  return impl_->passes.beyond_reach(impl_->foreign);
}

void TorchScriptModel::accelerate(bool wanted) {
  impl_->passes.accelerate(wanted, impl_->parameters);
}
AcceleratedCalls TorchScriptModel::accelerated_calls() const { return impl_->passes.calls(); }

std::vector<Segment> TorchScriptModel::segments() {
  Impl* model = impl_.get();
  return model->passes.of(
      {{"forward", [model](const Activations&, const batch::MicroBatch& micro,
                           const ForwardContext& context) { return model->run(micro, context); }}});
}

std::vector<LossHead> TorchScriptModel::losses() {
  if (impl_->own) return heads_of_own_losses(impl_->own->named(impl_->dtype));
  return heads_on_outputs(impl_->heads, impl_->loss);
}

NamedParameters TorchScriptModel::file_tensors() const {
  return file_tensors_of(impl_->parameters, impl_->buffers);
}

void TorchScriptModel::load_file_tensors(const StoredTensors& tensors, const std::string& origin) {
  const NamedParameters targets = file_tensors();
  copy_by_name(targets, with_whole_numbers(tensors, targets), origin,
               "the parameters of this TorchScript module");
}

bool TorchScriptModel::contains_batch_norm() const {
  return contains(impl_->foreign, ForeignLayer::Kind::batch_norm);
}

bool TorchScriptModel::contains_dropout() const {
  return contains(impl_->foreign, ForeignLayer::Kind::dropout);
}

const std::string& TorchScriptModel::digest() const { return impl_->digest; }

void TorchScriptModel::save(const std::filesystem::path& file) const {
  impl_->module.save(file.string());
}

}  // namespace accrue::models
