#include "accrue/models/torch_module.h"

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "accrue/core/error.h"
#include "kernels/operations.h"
#include "models/foreign/module_generator.h"
#include "models/foreign/module_layers.h"
#include "models/foreign/own_losses.h"
#include "support/snapshot.h"

namespace accrue::models {
namespace {

using torch::nn::AnyModule;
using torch::nn::Module;

/// One module of a Sequential.
struct Element {
  std::string name;
  AnyModule module;
  std::optional<double> dropout;  ///< set for a Dropout, which accrue's kernel replaces
};

/// Modules between two cuts.
struct Part {
  std::string name;
  std::optional<BatchNorm> entrance;
  std::vector<Element> elements;
  TensorSnapshot before_first_run;  ///< kept if the part will run again
};

void set_training(Module& module, bool training) {
  if (module.is_training() != training) module.train(training);
}

/// Dropout by sample id. Masks need [B, ...] with the channels last or alone; the order of the
/// other dimensions does not matter to them.
at::Tensor drop(const at::Tensor& x, double probability, const ForwardContext& context,
                std::int64_t site) {
  const at::Tensor rows = x.dim() <= 3 ? x : x.flatten(2);
  return kernels::operations_of(context)
      .dropout(rows.contiguous(), probability, context, site)
      .view(x.sizes());
}

/// Returns a copy, since a module may work in place and a pass may run again from the same inputs.
at::Tensor in_dtype_of(const NamedParameters& parameters, const at::Tensor& inputs) {
  if (parameters.empty() || !at::isFloatingType(inputs.scalar_type())) return inputs.clone();
  return inputs.to(parameters.front().tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

/// The micro-batch in the form for a module of the program's own.
batch::MicroBatch in_dtype_of(const NamedParameters& parameters, batch::MicroBatch micro) {
  if (micro.inputs.defined()) micro.inputs = in_dtype_of(parameters, micro.inputs);
  for (auto& [name, column] : micro.columns) column = in_dtype_of(parameters, column);
  return micro;
}

/// Why the layers in a module of a Sequential cannot be reached.
std::string reason_for(const Module& module, const std::string& name) {
  if (is_batch_norm(module)) return "its running statistics are cumulative averages (no momentum)";
  return "it cannot be reached inside the Sequential's module " + name;
}

TensorSnapshot snapshot_of_buffers(const std::vector<Element>& elements) {
  std::vector<at::Tensor> buffers;
  for (const Element& element : elements)
    std::ranges::copy(element.module.ptr()->buffers(), std::back_inserter(buffers));
  return TensorSnapshot(buffers);
}

bool will_be_rerun(const ForwardContext& context) {
  return context.recompute != Recompute::none && !context.rerun && !at::GradMode::is_enabled();
}

/// Modules may read and change buffers without accrue's knowledge: running statistics, counters,
/// vectors of a power iteration. A rerun starts from the values at the start of its first run, and
/// leaves those at its end.
class RerunBuffers {
 public:
  /// `before` carries the buffers from a first run to its rerun.
  RerunBuffers(const std::vector<Element>& elements, const ForwardContext& context,
               TensorSnapshot& before) {
    if (will_be_rerun(context)) before = snapshot_of_buffers(elements);
    if (!context.rerun) return;
    after_ = snapshot_of_buffers(elements);
    std::exchange(before, {}).restore_unseen();
  }
  ~RerunBuffers() { after_.restore_unseen(); }
  RerunBuffers(const RerunBuffers&) = delete;
  RerunBuffers& operator=(const RerunBuffers&) = delete;

 private:
  TensorSnapshot after_;
};

class ModuleTrainable : public Trainable {
 public:
  ModuleTrainable(std::shared_ptr<Module> module, LossFunction loss, std::string name)
      : module_(std::move(module)), loss_(std::move(loss)), name_(std::move(name)) {}

  NamedParameters parameters() const override { return parameters_of(*module_); }
  NamedParameters buffers() const override { return buffers_of(*module_); }
  std::vector<LossHead> losses() override {
    return {{name_, [this](const Activations& output, const batch::MicroBatch& micro,
                           const ForwardContext&, double) { return loss_(output.at(0), micro); }}};
  }
  std::vector<ForeignLayer> foreign_layers() const override { return foreign_; }

 protected:
  std::shared_ptr<Module> module_;
  LossFunction loss_;
  std::string name_;
  std::vector<ForeignLayer> foreign_;
};

class SequentialTrainable final : public ModuleTrainable {
 public:
  SequentialTrainable(std::shared_ptr<torch::nn::SequentialImpl> network, LossFunction loss,
                      std::string name)
      : ModuleTrainable(network, std::move(loss), std::move(name)) {
    if (network->is_empty())
      throw usage_error("train a torch::nn::Sequential", "at least one module", "none",
                        "adding its layers first");
    parts_.push_back({name_ + ".input", {}, {}});
    const auto children = network->named_children();
    std::size_t place = 0;
    for (const AnyModule& module : *network) add(children[place++].key(), module);
  }

  std::vector<Segment> segments() override {
    std::vector<Segment> chain;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Segment segment{
          parts_[i].name, [this, i](const Activations& x, const batch::MicroBatch& micro,
                                    const ForwardContext& context) {
            const at::Tensor input = i == 0 ? in_dtype_of(parameters(), micro.inputs) : x.at(0);
            return Activations{run(i, input, context)};
          }};
      segment.begins_block = true;
      if (parts_[i].entrance) segment.batch_norms.push_back({0, *parts_[i].entrance});
      chain.push_back(std::move(segment));
    }
    return chain;
  }

 private:
  void add(const std::string& name, const AnyModule& module) {
    const std::shared_ptr<Module> inside = module.ptr();
    if (auto layer = batch_norm_of(*inside, name)) {
      parts_.push_back({name, std::move(layer), {}});
      return;
    }
    Element element{name, module, {}};
    if (const auto* dropout = inside->as<torch::nn::DropoutImpl>())
      element.dropout = dropout->options.p();
    else
      for (ForeignLayer& layer : layers_inside(*inside, name, reason_for(*inside, name)))
        foreign_.push_back(std::move(layer));
    parts_.back().elements.push_back(std::move(element));
  }

  at::Tensor run(std::size_t part, at::Tensor x, const ForwardContext& context) {
    set_training(*module_, context.training);
    const ModuleGenerator generator(context, part);
    const RerunBuffers buffers(parts_[part].elements, context, parts_[part].before_first_run);
    std::int64_t site = static_cast<std::int64_t>(part) << 32;
    for (Element& element : parts_[part].elements) {
      x = element.dropout ? drop(x, *element.dropout, context, site)
                          : element.module.forward<at::Tensor>(x);
      ++site;
    }
    return x;
  }

  std::vector<Part> parts_;
};

class WholeModule final : public ModuleTrainable {
 public:
  WholeModule(std::shared_ptr<Module> module, ModuleForward forward, LossFunction loss,
              std::string name)
      : ModuleTrainable(std::move(module), std::move(loss), std::move(name)),
        forward_(std::move(forward)) {
    foreign_ = layers_inside(*module_, "", "the module runs as a whole");
  }

  std::vector<Segment> segments() override {
    return {{name_, [this](const Activations&, const batch::MicroBatch& micro,
                           const ForwardContext& context) {
               set_training(*module_, context.training);
               const ModuleGenerator generator(context, 0);
               return Activations{forward_(micro)};
             }}};
  }

 private:
  ModuleForward forward_;
};

/// The segment's result is each loss's sum and, as a tensor, its weight.
class ModuleWithLosses final : public Trainable {
 public:
  ModuleWithLosses(std::shared_ptr<Module> module, MicroBatchLosses losses,
                   std::vector<NamedLoss> named, std::string name)
      : module_(std::move(module)),
        losses_(std::move(losses)),
        named_(std::move(named)),
        name_(std::move(name)) {}

  NamedParameters parameters() const override { return parameters_of(*module_); }
  NamedParameters buffers() const override { return buffers_of(*module_); }
  std::vector<ForeignLayer> foreign_layers() const override {
    return layers_inside(*module_, "", "the module runs as a whole");
  }

  std::vector<Segment> segments() override {
    return {{name_, [this](const Activations&, const batch::MicroBatch& micro,
                           const ForwardContext& context) {
               set_training(*module_, context.training);
               const ModuleGenerator generator(context, 0);
               return activations_of(checked_losses(micro), name_);
             }}};
  }
  std::vector<LossHead> losses() override { return heads_of_own_losses(named_); }

 private:
  /// The losses of a micro-batch, one for each name.
  std::vector<Loss> checked_losses(const batch::MicroBatch& micro) const {
    std::vector<Loss> losses = losses_(in_dtype_of(parameters(), micro));
    if (losses.size() == named_.size()) return losses;
    throw usage_error("losses of " + name_, std::to_string(named_.size()) + " losses",
                      std::to_string(losses.size()), "a loss for each name, in their order");
  }

  std::shared_ptr<Module> module_;
  MicroBatchLosses losses_;
  std::vector<NamedLoss> named_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Trainable> from_sequential(const torch::nn::Sequential& network, LossFunction loss,
                                           const std::string& name) {
  return std::make_unique<SequentialTrainable>(network.ptr(), std::move(loss), name);
}

std::unique_ptr<Trainable> from_module(std::shared_ptr<Module> module, ModuleForward forward,
                                       LossFunction loss, const std::string& name) {
  return std::make_unique<WholeModule>(std::move(module), std::move(forward), std::move(loss),
                                       name);
}

std::unique_ptr<Trainable> from_loss(std::shared_ptr<Module> module, MicroBatchLoss loss,
                                     const std::string& name) {
  return std::make_unique<ModuleWithLosses>(
      std::move(module),
      [loss = std::move(loss)](const batch::MicroBatch& micro) { return std::vector{loss(micro)}; },
      std::vector<NamedLoss>{{.name = "loss", .weight = {}}}, name);
}

std::unique_ptr<Trainable> from_losses(std::shared_ptr<Module> module, MicroBatchLosses losses,
                                       std::vector<NamedLoss> named, const std::string& name) {
  if (named.empty())
    throw usage_error("losses of " + name, "at least one loss", "no names", "a name for each loss");
  if (named.size() > 1)
    for (const NamedLoss& loss : named)
      if (!loss.weight)
        throw usage_error("losses of " + name, "NamedLoss::weight of each of several losses",
                          "none of '" + loss.name + "'",
                          "a function that counts its terms from the labels");
  return std::make_unique<ModuleWithLosses>(std::move(module), std::move(losses), std::move(named),
                                            name);
}

}  // namespace accrue::models
