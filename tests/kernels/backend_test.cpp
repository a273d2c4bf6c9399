// The back end of a tensor follows its device and the selected kernels, and inherits what it lacks.
#include "kernels/backend.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <typeinfo>
#include <vector>

#include "accrue/kernels/kernel_choice.h"
#include "kernels/aten/aten_backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/rows/token_gradient.h"

namespace accrue::kernels {
namespace backend_test {

at::Tensor on_the_cpu() { return at::ones({2, 3}); }
/// A device for which accrue has no passes of its own.
at::Tensor on_another_device() { return at::empty({2, 3}, at::device(at::kMeta)); }

template <class Expected>
bool is_a(const Backend& backend) {
  return typeid(backend) == typeid(Expected);
}

TEST(Backend, IsThatOfTheDevice) {
  const KernelScope native(Kernels::native);
  EXPECT_TRUE(is_a<CpuBackend>(backend_of(on_the_cpu())));
  EXPECT_TRUE(passes_over_memory(on_the_cpu()));
  EXPECT_TRUE(is_a<AtenBackend>(backend_of(on_another_device())));
  EXPECT_FALSE(passes_over_memory(on_another_device()));
}

TEST(Backend, IsAtensEverywhereWithGenericKernels) {
  const KernelScope generic(Kernels::generic);
  EXPECT_TRUE(is_a<AtenBackend>(backend_of(on_the_cpu())));
  EXPECT_FALSE(passes_over_memory(on_the_cpu()));
  EXPECT_TRUE(is_a<AtenBackend>(backend_of(on_another_device())));
  const KernelScope native(Kernels::native);
  EXPECT_TRUE(is_a<CpuBackend>(backend_of(on_the_cpu())));
}

/// A device with two passes of its own, each with a fault that shows that it ran.
class TwoPasses final : public AtenBackend {
 public:
  void gelu(const at::Tensor& pre, at::Tensor& out) const override {
    AtenBackend::gelu(pre, out);
    out.mul_(2);
  }
  void add_at(at::Tensor& sums, const at::Tensor& index, const at::Tensor& values) const override {
    AtenBackend::add_at(sums, index, values * 2);
  }
};

at::Tensor gelu_by(const Backend& backend) {
  const at::Tensor pre = on_the_cpu();
  at::Tensor out = at::empty_like(pre);
  backend.gelu(pre, out);
  return out;
}

at::Tensor derivative_by(const Backend& backend) {
  const at::Tensor pre = on_the_cpu();
  at::Tensor grad = at::empty_like(pre);
  backend.gelu_backward(at::ones_like(pre), pre, grad);
  return grad;
}

/// The rows of two tokens and of a third that occurs twice, added to a table.
at::Tensor table_by(const Backend& backend) {
  const at::Tensor ids = at::tensor(std::vector<std::int64_t>{3, 0, 3, 1}).view({1, 4});
  const at::Tensor grad = at::arange(8, at::kFloat).view({1, 4, 2});
  at::Tensor table = at::zeros({4, 2});
  backend.add_rows({{.begin = 0, .length = 4}}, ids, grad, table);
  return table;
}

TEST(Backend, InheritsThePassesThatItLacks) {
  const AtenBackend aten{};
  const TwoPasses own{};
  EXPECT_TRUE(at::equal(gelu_by(own), gelu_by(aten) * 2));
  EXPECT_TRUE(at::equal(derivative_by(own), derivative_by(aten)));
}

TEST(Backend, GivesItsOwnPartsToInheritedPasses) {
  const AtenBackend aten{};
  const CpuBackend cpu{};
  EXPECT_TRUE(at::equal(table_by(aten), table_by(cpu)));
  EXPECT_TRUE(at::equal(table_by(TwoPasses()), table_by(aten) * 2));
}

}  // namespace backend_test
}  // namespace accrue::kernels
