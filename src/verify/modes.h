#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "accrue/verify/verify.h"
#include "verify/subject.h"

namespace accrue::proof {

/// Puts a model into a mode during its lifetime.
class ModeScope {
 public:
  ModeScope(const detail::VerifiedModel& model, Mode mode);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  std::vector<std::function<void()>> undo_;
};

}  // namespace accrue::proof
