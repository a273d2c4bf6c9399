#include "kernels/convolution/onednn_weight_gradient.h"

#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>

#include "accrue/core/error.h"

namespace accrue::kernels::onednn {
namespace {

using dnnl::memory;
using Layout = memory::format_tag;

constexpr auto fp32 = memory::data_type::f32;
constexpr bool may_be_none = true;

Layout image_layout(std::size_t dimensions, bool channels_last) {
  constexpr Layout dense[] = {Layout::ncw, Layout::nchw, Layout::ncdhw};
  constexpr Layout last[] = {Layout::nwc, Layout::nhwc, Layout::ndhwc};
  return (channels_last ? last : dense)[dimensions - 3];
}

memory::desc image_of(const std::vector<std::int64_t>& sizes, bool channels_last) {
  return {sizes, fp32, image_layout(sizes.size(), channels_last)};
}

memory::desc in_any_layout(const memory::desc& of) { return {of.get_dims(), fp32, Layout::any}; }

memory::desc weights_of(const WeightGradient& sizes) {
  memory::dims weight = sizes.weight;
  constexpr Layout dense[] = {Layout::oiw, Layout::oihw, Layout::oidhw};
  constexpr Layout grouped[] = {Layout::goiw, Layout::goihw, Layout::goidhw};
  const std::size_t kind = weight.size() - 3;
  if (sizes.groups == 1) return {weight, fp32, dense[kind]};
  weight[0] /= sizes.groups;
  weight.insert(weight.begin(), sizes.groups);
  return {weight, fp32, grouped[kind]};
}

dnnl::primitive_attr with_given_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::convolution_backward_weights::primitive_desc describe(const WeightGradient& sizes,
                                                            const dnnl::engine& engine) {
  const memory::desc x = in_any_layout(image_of(sizes.x, sizes.channels_last)),
                     grad = in_any_layout(image_of(sizes.grad, sizes.channels_last)),
                     weights = in_any_layout(weights_of(sizes));
  memory::dims dilation = sizes.dilation;
  for (auto& pixels : dilation) --pixels;  // oneDNN counts those that are left out
  const dnnl::convolution_forward::primitive_desc forward(
      engine, dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, x, weights,
      grad, sizes.stride, dilation, sizes.padding, sizes.padding, with_given_scratchpad(),
      may_be_none);
  if (!forward) return {};
  return {engine,
          dnnl::algorithm::convolution_direct,
          x,
          weights,
          grad,
          sizes.stride,
          dilation,
          sizes.padding,
          sizes.padding,
          forward,
          with_given_scratchpad(),
          may_be_none};
}

/// From one layout into another, written or added.
dnnl::reorder arranging(const memory::desc& from, const memory::desc& to, bool add,
                        const dnnl::engine& engine) {
  dnnl::primitive_attr attributes;
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  return dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to, attributes));
}

/// A gradient made ready to run, or found to have no fast implementation.
struct Compiled {
  bool supported = false;
  dnnl::convolution_backward_weights made_by;
  memory::desc x, grad, made, scratchpad;  ///< in the layouts that it wants
  memory::desc given_x, given_grad, wanted;
  dnnl::reorder arrange_x, arrange_grad, write, add;
};

Compiled compile(const WeightGradient& sizes, const dnnl::engine& engine) {
  const auto description = describe(sizes, engine);
  // The reference implementation is there for any shape, and slower than libtorch.
  if (!description ||
      std::string_view(description.impl_info_str()).find("ref") != std::string_view::npos)
    return {};
  Compiled result{.supported = true,
                  .made_by = dnnl::convolution_backward_weights(description),
                  .x = description.src_desc(),
                  .grad = description.diff_dst_desc(),
                  .made = description.diff_weights_desc(),
                  .scratchpad = description.scratchpad_desc(),
                  .given_x = image_of(sizes.x, sizes.channels_last),
                  .given_grad = image_of(sizes.grad, sizes.channels_last),
                  .wanted = weights_of(sizes)};
  result.arrange_x = arranging(result.given_x, result.x, false, engine);
  result.arrange_grad = arranging(result.given_grad, result.grad, false, engine);
  result.write = arranging(result.made, result.wanted, false, engine);
  result.add = arranging(result.made, result.wanted, true, engine);
  return result;
}

/// The engine and what is compiled for it; when there are many they are forgotten together.
class WeightGradients {
 public:
  std::shared_ptr<const Compiled> compiled(const WeightGradient& sizes) {
    const std::lock_guard lock(mutex_);
    if (compiled_.size() > capacity) compiled_.clear();
    std::shared_ptr<const Compiled>& found = compiled_[sizes];
    if (!found) found = std::make_shared<const Compiled>(compile(sizes, engine_));
    return found;
  }
  const dnnl::engine& engine() const { return engine_; }

 private:
  static constexpr std::size_t capacity = 1024;
  std::mutex mutex_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::map<WeightGradient, std::shared_ptr<const Compiled>> compiled_;
};

WeightGradients& shared_gradients() {
  static WeightGradients gradients;
  return gradients;
}

/// One run of a compiled gradient.
class GradientRun {
 public:
  GradientRun(const Compiled& compiled, const Room& room) : compiled_(compiled), room_(room) {}

  void run(const float* x, const float* grad, float* into, bool add) {
    const memory source = arranged(compiled_.arrange_x, at(compiled_.given_x, x), compiled_.x),
                 upstream = arranged(compiled_.arrange_grad, at(compiled_.given_grad, grad),
                                     compiled_.grad);
    memory wanted = at(compiled_.wanted, into);
    const bool is_direct = !add && compiled_.made == compiled_.wanted;
    memory made = is_direct ? wanted : in_room(compiled_.made);
    compiled_.made_by.execute(stream_, {{DNNL_ARG_SRC, source},
                                        {DNNL_ARG_DIFF_DST, upstream},
                                        {DNNL_ARG_DIFF_WEIGHTS, made},
                                        {DNNL_ARG_SCRATCHPAD, in_room(compiled_.scratchpad)}});
    if (!is_direct) (add ? compiled_.add : compiled_.write).execute(stream_, made, wanted);
    stream_.wait();
  }

 private:
  const dnnl::engine& engine() const { return shared_gradients().engine(); }
  /// oneDNN's memory takes no pointer to const; sources are only read.
  memory at(const memory::desc& desc, const float* data) const {
    return {desc, engine(), const_cast<float*>(data)};
  }
  memory in_room(const memory::desc& desc) const {
    return {desc, engine(), room_(desc.get_size())};
  }
  memory arranged(const dnnl::reorder& arrange, memory given, const memory::desc& wanted) {
    if (given.get_desc() == wanted) return given;
    memory to = in_room(wanted);
    arrange.execute(stream_, given, to);
    return to;
  }

  const Compiled& compiled_;
  const Room& room_;
  dnnl::stream stream_{shared_gradients().engine()};
};

/// What `action` gives of the compiled gradient.
template <class Action>
auto with_compiled(const WeightGradient& sizes, const Action& action) {
  try {
    const std::shared_ptr<const Compiled> compiled = shared_gradients().compiled(sizes);
    return action(*compiled);
  } catch (const dnnl::error& error) {
    throw runtime_error("convolution", "oneDNN to make its weight gradient", error.what(),
                        "a smaller micro-batch if memory is short, or model.accelerate = \"off\"");
  }
}

}  // namespace

bool has_weight_gradient(const WeightGradient& sizes) {
  return with_compiled(sizes, [](const Compiled& compiled) { return compiled.supported; });
}

void weight_gradient(const WeightGradient& sizes, const float* x, const float* grad, float* into,
                     bool add, const Room& room) {
  with_compiled(sizes, [&](const Compiled& compiled) {
    GradientRun(compiled, room).run(x, grad, into, add);
  });
}

}  // namespace accrue::kernels::onednn
