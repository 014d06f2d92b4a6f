#include "calibrate/linear_fit.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Map = Eigen::Map<const RowMajor>;

Map View(const Matrix& m) {
  return Map(m.values.data(), m.rows, m.columns);
}

Matrix ToMatrix(const Eigen::Ref<const Eigen::MatrixXd>& m) {
  Matrix out(m.rows(), m.cols());
  Eigen::Map<RowMajor>(out.values.data(), out.rows, out.columns) = m;
  return out;
}

absl::Status CheckRank(std::int64_t rank, std::int64_t max_rank) {
  if (rank >= 1 && rank <= max_rank) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " is outside [1, ", max_rank, "]"));
}

// Solves (aa + lambda I) x = rhs. Rows that never vary (aa = 0) can say nothing: x = 0.
absl::StatusOr<Eigen::MatrixXd> SolveRidge(const Matrix& aa, double ridge_lambda,
                                           const Eigen::MatrixXd& rhs) {
  const Map gram = View(aa);
  const double lambda = ridge_lambda * gram.diagonal().mean();
  if (!std::isfinite(lambda)) return absl::FailedPreconditionError("rows hold values that are not finite");
  if (gram.diagonal().maxCoeff() <= 0.0) return Eigen::MatrixXd::Zero(rhs.rows(), rhs.cols());
  Eigen::MatrixXd regularised = gram;
  regularised.diagonal().array() += lambda;
  const Eigen::LDLT<Eigen::MatrixXd> factor(regularised);
  if (factor.info() != Eigen::Success) {
    return absl::FailedPreconditionError("the Gram matrix could not be factorised: raise ridge_lambda");
  }
  return Eigen::MatrixXd(factor.solve(rhs));
}

// Eigenvectors of the `rank` largest eigenvalues, largest first, each with its largest component positive.
absl::StatusOr<Eigen::MatrixXd> LeadingEigenvectors(const Eigen::MatrixXd& symmetric, std::int64_t rank) {
  if (!symmetric.allFinite()) return absl::FailedPreconditionError("rows hold values that are not finite");
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(symmetric);
  if (solver.info() != Eigen::Success) {
    return absl::InternalError("the eigenvalue iteration did not converge");
  }
  Eigen::MatrixXd out = solver.eigenvectors().rightCols(rank).rowwise().reverse();
  for (Eigen::Index c = 0; c < out.cols(); ++c) {
    Eigen::Index largest = 0;
    out.col(c).cwiseAbs().maxCoeff(&largest);
    if (out(largest, c) < 0.0) out.col(c) = -out.col(c);
  }
  return out;
}

LinearFit MakeFit(const Moments& moments, const Eigen::Ref<const Eigen::MatrixXd>& encoder,
                  const Eigen::Ref<const Eigen::MatrixXd>& decoder) {
  return {moments.mean_a, moments.mean_b, ToMatrix(encoder), ToMatrix(decoder)};
}

}  // namespace

absl::StatusOr<LinearFit> FitJoint(const Moments& moments, std::int64_t rank, double ridge_lambda) {
  const Map aa = View(moments.aa);
  const Map ab = View(moments.ab);
  const Map bb = View(moments.bb);
  const Eigen::Index dim_a = aa.rows();
  const Eigen::Index dim_b = ab.cols();
  if (bb.rows() != dim_b) return absl::InvalidArgumentError("the joint fit needs the moments of b");
  SCD_RETURN_IF_ERROR(CheckRank(rank, dim_a + dim_b));

  Eigen::MatrixXd gram(dim_a + dim_b, dim_a + dim_b);
  gram << aa, ab, ab.transpose(), bb;
  SCD_ASSIGN_OR_RETURN(const Eigen::MatrixXd u, LeadingEigenvectors(gram, rank));
  // A^T Z = A^T [A B] U.
  const Eigen::MatrixXd target = gram.topRows(dim_a) * u;
  SCD_ASSIGN_OR_RETURN(const Eigen::MatrixXd encoder, SolveRidge(moments.aa, ridge_lambda, target));
  return MakeFit(moments, encoder, u.bottomRows(dim_b).transpose());
}

absl::StatusOr<LinearFit> FitReducedRank(const Moments& moments, std::int64_t rank, double ridge_lambda) {
  const Map aa = View(moments.aa);
  SCD_RETURN_IF_ERROR(CheckRank(rank, moments.ab.columns));
  SCD_ASSIGN_OR_RETURN(const Eigen::MatrixXd p, SolveRidge(moments.aa, ridge_lambda, View(moments.ab)));
  const Eigen::MatrixXd predicted = p.transpose() * (aa * p);
  SCD_ASSIGN_OR_RETURN(const Eigen::MatrixXd u, LeadingEigenvectors(predicted, rank));
  return MakeFit(moments, p * u, u.transpose());
}

std::vector<double> CodeVariances(const Moments& moments, const LinearFit& fit) {
  const Map encoder = View(fit.encoder);
  const Eigen::MatrixXd products = View(moments.aa) * encoder;
  const Eigen::VectorXd sums = encoder.cwiseProduct(products).colwise().sum();
  std::vector<double> variances;
  for (Eigen::Index c = 0; c < sums.size(); ++c) {
    variances.push_back(std::max(0.0, sums(c)) / static_cast<double>(moments.count));
  }
  return variances;
}

}  // namespace scd
