// The feed-forward part of a layer: its first product with each of its gradients, and all of it.

#include "accrue/kernels/linear.h"

#include <ATen/ATen.h>

#include "comparison.h"
#include "differentiated.h"
#include "kernels/gemm/gemm.h"

namespace accrue::bench {
namespace {

struct Sizes {
  explicit Sizes(const Workload& workload)
      : rows(workload.tokens()), in(workload.width), out(4 * workload.width) {}
  std::int64_t rows, in, out;
  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  }
};

constexpr double weight_deviation = 0.02;

Comparison forward(const Workload& workload, at::ScalarType dtype) {
  const Sizes sizes(workload);
  const at::Tensor x = random({sizes.rows, sizes.in}, dtype);
  const Parameter weight(random({sizes.out, sizes.in}, at::kFloat, weight_deviation)),
      bias(random({sizes.out}, at::kFloat));
  const PlainParameter low_weight(weight.tensor, dtype), low_bias(bias.tensor, dtype);
  const auto prepared = std::make_shared<kernels::PreparedWeight>();
  prepared->pack(true);
  return {
      .accrue =
          [=] { return std::vector{kernels::linear(x, weight.tensor, bias.tensor, *prepared)}; },
      .aten = [=] { return std::vector{at::linear(x, low_weight.tensor, low_bias.tensor)}; },
      .flops = sizes.flops(),
      .bytes = bytes_of({x, low_weight.tensor, bias.tensor}) +
               static_cast<double>(sizes.rows * sizes.out * x.element_size()),
      .products = dtype};
}

Comparison data_gradient(const Workload& workload, at::ScalarType dtype) {
  const Sizes sizes(workload);
  const at::Tensor grad = random({sizes.rows, sizes.out}, dtype),
                   weight = random({sizes.out, sizes.in}, dtype, weight_deviation);
  const at::Tensor ours = at::empty({sizes.rows, sizes.in}, grad.options()),
                   theirs = at::empty_like(ours);
  return {.accrue =
              [=] {
                at::Tensor out = ours;
                kernels::gemm_out(out, grad, weight);
                return std::vector{out};
              },
          .aten =
              [=] {
                at::Tensor out = theirs;
                return std::vector{at::mm_out(out, grad, weight)};
              },
          .flops = sizes.flops(),
          .bytes = bytes_of({grad, weight, ours}),
          .products = dtype};
}

/// Into the fp32 main gradient. ATen has no product of bf16 into fp32 on the CPU: it makes one in
/// bf16 and adds or copies that.
Comparison weight_gradient(const Workload& workload, at::ScalarType dtype, bool add) {
  const Sizes sizes(workload);
  const at::Tensor grad = random({sizes.rows, sizes.out}, dtype),
                   x = random({sizes.rows, sizes.in}, dtype);
  const at::Tensor ours = at::zeros({sizes.out, sizes.in}), theirs = at::zeros_like(ours);
  const auto accrue = [=] {
    at::Tensor main = ours;
    kernels::gemm_out(main, grad.t(), x, add);
    return std::vector{main};
  };
  const auto aten = [=] {
    at::Tensor main = theirs;
    if (grad.scalar_type() == main.scalar_type()) {
      if (add)
        at::addmm_out(main, main, grad.t(), x);
      else
        at::mm_out(main, grad.t(), x);
    } else {
      const at::Tensor product = at::mm(grad.t(), x);
      add ? main.add_(product) : main.copy_(product);
    }
    return std::vector{main};
  };
  return {.accrue = accrue,
          .aten = aten,
          .flops = sizes.flops(),
          .bytes = bytes_of({grad, x, ours}) + (add ? bytes_of({ours}) : 0),
          .products = dtype};
}

/// Both layers with the activation between them.
struct OurMlp {
  OurMlp(const at::Tensor& x_value, const at::Tensor& w1_value, const at::Tensor& w2_value)
      : x(x_value.detach().requires_grad_(true)),
        w1(w1_value),
        b1(at::zeros({w1_value.size(0)})),
        w2(w2_value),
        b2(at::zeros({w2_value.size(0)})) {
    prepared1.pack(true);
    prepared2.pack(true);
  }
  at::Tensor forward() {
    return kernels::mlp_gelu(x, w1.tensor, b1.tensor, prepared1, w2.tensor, b2.tensor, prepared2);
  }
  at::Tensor x;
  Parameter w1, b1, w2, b2;
  kernels::PreparedWeight prepared1, prepared2;
};

struct PlainMlp {
  PlainMlp(const at::Tensor& x_value, const at::Tensor& w1_value, const at::Tensor& w2_value)
      : x(x_value.detach().requires_grad_(true)),
        parameters{{w1_value, x.scalar_type()},
                   {at::zeros({w1_value.size(0)}), x.scalar_type()},
                   {w2_value, x.scalar_type()},
                   {at::zeros({w2_value.size(0)}), x.scalar_type()}} {}
  at::Tensor forward() const {
    const at::Tensor pre = at::linear(x, parameters[0].tensor, parameters[1].tensor);
    return at::linear(at::gelu(pre, "tanh"), parameters[2].tensor, parameters[3].tensor);
  }
  at::Tensor x;
  std::vector<PlainParameter> parameters;
};

struct Mlps {
  Mlps(const Workload& workload, at::ScalarType dtype) : sizes(workload) {
    const at::Tensor x = random({sizes.rows, sizes.in}, dtype);
    const at::Tensor w1 = random({sizes.out, sizes.in}, at::kFloat, weight_deviation),
                     w2 = random({sizes.in, sizes.out}, at::kFloat, weight_deviation);
    ours = std::make_shared<OurMlp>(x, w1, w2);
    theirs = std::make_shared<PlainMlp>(x, w1, w2);
  }
  double bytes_of_weights() const {
    return bytes_of({theirs->parameters[0].tensor, theirs->parameters[2].tensor});
  }
  /// The hidden layer before its activation, which backward cannot do without.
  double bytes_of_hidden() const {
    return static_cast<double>(sizes.rows * sizes.out * theirs->x.element_size());
  }
  Sizes sizes;
  std::shared_ptr<OurMlp> ours;
  std::shared_ptr<PlainMlp> theirs;
};

Comparison mlp_forward(const Workload& workload, at::ScalarType dtype) {
  const Mlps mlps(workload, dtype);
  return {
      .accrue = [mlps] { return std::vector{mlps.ours->forward()}; },
      .aten = [mlps] { return std::vector{mlps.theirs->forward()}; },
      .flops = 2 * mlps.sizes.flops(),
      .bytes = mlps.bytes_of_weights() + mlps.bytes_of_hidden() + 2 * bytes_of({mlps.theirs->x}),
      .products = dtype};
}

Comparison mlp_backward(const Workload& workload, at::ScalarType dtype) {
  const Mlps mlps(workload, dtype);
  const at::Tensor grad = random(mlps.theirs->x.sizes(), dtype);
  const OurMlp& ours = *mlps.ours;
  const Backward our_backward{
      {mlps.ours->forward()},
      {ours.x, ours.w1.tensor, ours.b1.tensor, ours.w2.tensor, ours.b2.tensor},
      {grad}};
  torch::autograd::variable_list inputs{mlps.theirs->x};
  for (const PlainParameter& parameter : mlps.theirs->parameters)
    inputs.push_back(parameter.tensor);
  const Backward their_backward{{mlps.theirs->forward()}, inputs, {grad}};
  return {.accrue =
              [mlps, our_backward] {
                return std::vector{our_backward()[0], mlps.ours->w1.slot->main,
                                   mlps.ours->w2.slot->main};
              },
          .aten =
              [mlps, their_backward] {
                const torch::autograd::variable_list grads = their_backward();
                const std::vector<PlainParameter>& parameters = mlps.theirs->parameters;
                for (std::size_t i = 0; i < parameters.size(); ++i)
                  at::Tensor(parameters[i].main).add_(grads[i + 1]);
                return std::vector{grads[0], parameters[0].main, parameters[2].main};
              },
          .flops = 4 * mlps.sizes.flops(),
          .bytes = mlps.bytes_of_weights() + mlps.bytes_of_hidden() + 3 * bytes_of({grad}) +
                   2 * bytes_of({ours.w1.slot->main, ours.w2.slot->main}),
          .products = dtype};
}

}  // namespace

void add_linear() {
  for (const Workload& workload : workloads)
    for (const at::ScalarType dtype : precisions) {
      add_comparison({"linear_forward", workload, dtype}, [=] { return forward(workload, dtype); });
      add_comparison({"linear_data_gradient", workload, dtype},
                     [=] { return data_gradient(workload, dtype); });
      add_comparison({"linear_weight_gradient_written", workload, dtype},
                     [=] { return weight_gradient(workload, dtype, false); });
      add_comparison({"linear_weight_gradient_added", workload, dtype},
                     [=] { return weight_gradient(workload, dtype, true); });
      add_comparison({"mlp_gelu_forward", workload, dtype},
                     [=] { return mlp_forward(workload, dtype); });
      add_comparison({"mlp_gelu_backward", workload, dtype},
                     [=] { return mlp_backward(workload, dtype); });
    }
}

}  // namespace accrue::bench
