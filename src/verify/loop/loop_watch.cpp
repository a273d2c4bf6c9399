#include "verify/loop/loop_watch.h"

#include <ATen/ATen.h>

#include <mutex>
#include <vector>

namespace accrue::proof {
namespace {

bool is_zero(const at::Tensor& tensor) {
  return !tensor.defined() || !tensor.detach().ne(0).any().item<bool>();
}

}  // namespace

struct LoopWatch::Impl {
  struct Watched {
    std::string name;
    at::Tensor parameter;
    at::Tensor at_first;  ///< its value
    std::int64_t backwards = 0;
    bool has_sum = false;
    unsigned hook = 0;
  };
  std::vector<Watched> watched;
  Seen stepped, zeroed;
  bool saw_sums = false;
  std::mutex mutex;  ///< backward may run on several threads

  void see(std::size_t index, const at::Tensor& gradient) {
    const std::lock_guard lock(mutex);
    Watched& w = watched[index];
    if (w.backwards == 0) {
      w.at_first = w.parameter.detach().clone();
    } else {
      if (stepped.before < 0 && !at::equal(w.parameter.detach(), w.at_first))
        stepped = {w.backwards, w.name};
      const bool gone = is_zero(w.parameter.grad());
      saw_sums = saw_sums || !gone;
      if (zeroed.before < 0 && w.has_sum && gone) zeroed = {w.backwards, w.name};
    }
    w.has_sum = w.has_sum || !is_zero(gradient);
    ++w.backwards;
  }
};

LoopWatch::LoopWatch(const NamedParameters& parameters) : impl_(std::make_shared<Impl>()) {
  impl_->watched.reserve(parameters.size());
  for (const NamedParameter& parameter : parameters) {
    const std::size_t index = impl_->watched.size();
    impl_->watched.push_back({parameter.name, parameter.tensor, {}});
    impl_->watched.back().hook = parameter.tensor.register_hook(
        [impl = std::weak_ptr<Impl>(impl_), index](const at::Tensor& gradient) {
          if (const auto alive = impl.lock()) alive->see(index, gradient);
        });
  }
}

LoopWatch::~LoopWatch() {
  for (const Impl::Watched& w : impl_->watched) w.parameter.remove_hook(w.hook);
}

const LoopWatch::Seen& LoopWatch::stepped() const { return impl_->stepped; }
const LoopWatch::Seen& LoopWatch::zeroed() const { return impl_->zeroed; }
bool LoopWatch::saw_sums() const { return impl_->saw_sums; }

}  // namespace accrue::proof
